#include "analyzer/model/late_hosts.h"

#include <algorithm>
#include <map>
#include <vector>

#include "analyzer/model/activity.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/lateness.h"

namespace traintrace {
namespace {

std::vector<TimeSpan> united(std::vector<TimeSpan> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.from < b.from; });
  std::vector<TimeSpan> result;
  for (const TimeSpan& span : spans) {
    if (!result.empty() && span.from <= result.back().until) {
      result.back().until = std::max(result.back().until, span.until);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

// What of `span` lies outside of these.
std::vector<TimeSpan> outside(TimeSpan span, const std::vector<TimeSpan>& spans) {
  std::vector<TimeSpan> result;
  for (const TimeSpan& other : spans) {
    if (other.until <= span.from || other.from >= span.until) {
      continue;
    }
    if (other.from > span.from) {
      result.push_back({span.from, other.from});
    }
    span.from = std::max(span.from, other.until);
  }
  if (span.from < span.until) {
    result.push_back(span);
  }
  return result;
}

// In which the rank was outside of calls, of those times; none of it before its records begin.
std::vector<TimeSpan> outside_calls(const Run& run, Rank rank, TimeSpan span) {
  const RankState& state = *state_of(run, rank);
  const ProcessTrace& trace = trace_of(run, state);
  std::vector<TimeSpan> calls;
  std::map<uint32_t, TimeNs> begins;  // of what is kept, by thread
  for (const CallRecord& event : trace.events) {
    if (event.moment || (state.device >= 0 && event.device != state.device)) {
      continue;
    }
    const TimeNs from = event.enter_lost ? event.leave : event.enter;
    const auto [begin, is_first] = begins.try_emplace(event.thread, from);
    begin->second = std::min(begin->second, from);
    calls.push_back({from, event.returned ? event.leave : span.until});
  }
  for (const ThreadText& thread : trace.threads) {
    const auto begin = begins.find(thread.serial);
    if (works_for(state, thread) && thread.dropped == 0 && begin != begins.end() &&
        begin->second <= span.from) {
      return outside(span, united(std::move(calls)));
    }
  }
  return {};
}

}  // namespace

void find_late_hosts(Run& run) {
  std::vector<TimeSpan> late;
  for (const Lateness& lateness : find_all_lateness(run)) {
    for (const Rank rank : lateness.late) {
      const std::vector<TimeSpan> own = outside_calls(run, rank, {lateness.from, lateness.until});
      late.insert(late.end(), own.begin(), own.end());
    }
  }
  run.late_hosts = united(std::move(late));
}

TimeNs without_late_hosts(const Run& run, TimeNs from, TimeNs until) {
  TimeNs rest = elapsed(from, until);
  auto span = std::partition_point(run.late_hosts.begin(), run.late_hosts.end(),
                                   [&](const TimeSpan& late) { return late.until <= from; });
  for (; span != run.late_hosts.end() && span->from < until; ++span) {
    rest -= elapsed(std::max(span->from, from), std::min(span->until, until));
  }
  return rest;
}

}  // namespace traintrace
