#include <algorithm>
#include <optional>
#include <tuple>

#include "analyzer/memory/history.h"
#include "analyzer/model/activity.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/told_steps.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using Sites = std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::vector<TimeNs>>;

bool has_peers(const ProcessTrace& trace) {
  return std::any_of(trace.communicators.begin(), trace.communicators.end(),
                     [](const CommunicatorText& text) { return text.size > 1; });
}

bool is_work(const std::string& kind, bool peers) {
  return peers ? kind == "collective" || kind == "send-recv"
               : kind == "launch" || kind == "graph-launch";
}

Sites working_sites(const ProcessTrace& trace) {
  const bool peers = has_peers(trace);
  Sites sites;
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    if (schema == nullptr || event.enter == 0 || event.enter_lost || event.result != 0 ||
        !is_work(schema->kind, peers)) {
      continue;
    }
    sites[{event.call, event.stack, event.caller}].push_back(event.enter);
  }
  return sites;
}

// How many places were called how often.
using Counts = std::map<uint64_t, uint64_t>;

Counts counts_of(const Sites& sites) {
  Counts counts;
  for (const auto& [key, times] : sites) {
    ++counts[times.size()];
  }
  return counts;
}

// Called about as often, give or take the step at either end.
uint64_t agreeing(const Counts& counts, uint64_t count) {
  uint64_t agree = 0;
  for (auto other = counts.lower_bound(count - 1);
       other != counts.end() && other->first <= count + 1; ++other) {
    agree += other->second;
  }
  return agree;
}

// Of two that are as likely: what begins behind the other is no preparation; else the outer loop.
bool is_better(const std::vector<TimeNs>& times, const std::vector<TimeNs>& best) {
  return times.front() >= best.back()   ? true
         : best.front() >= times.back() ? false
                                        : times.size() < best.size();
}

// What the job tells wins over what looks like steps.  Of work before and after them nothing is
// known but that it is none of theirs.
std::optional<Steps> as_told(const ProcessTrace& trace, const Sites& sites) {
  const std::vector<ToldStep> told = told_steps(trace);
  if (told.size() < kFewestSteps) {
    return std::nullopt;
  }
  Steps steps;
  steps.starts.reserve(told.size());
  for (const ToldStep& step : told) {
    steps.starts.push_back(step.began);
  }
  steps.work_end = steps.last();
  for (const auto& [site, times] : sites) {
    steps.work_end = std::max(steps.work_end, times.back());
  }
  return steps;
}

}  // namespace

Steps steps_of(const ProcessTrace& trace) {
  const Sites sites = working_sites(trace);
  if (const std::optional<Steps> told = as_told(trace, sites)) {
    return *told;
  }
  constexpr size_t kMostSites = 8192;  // more than a step has: nothing that repeats in few lines
  if (sites.size() > kMostSites) {
    return {};
  }
  const Counts counts = counts_of(sites);
  const std::vector<TimeNs>* best = nullptr;
  uint64_t most = 0;
  TimeNs end = 0;
  for (const auto& [key, times] : sites) {
    const uint64_t others = times.size() < kFewestSteps ? 0 : agreeing(counts, times.size());
    end = std::max(end, times.back());
    if (others > most || (others == most && best != nullptr && is_better(times, *best))) {
      best = &times;
      most = others;
    }
  }
  return best == nullptr ? Steps() : Steps{*best, end};
}

int64_t Steps::number_at(TimeNs time) const {
  if (starts.empty() || time >= first()) {
    return std::upper_bound(starts.begin(), starts.end(), time) - starts.begin();
  }
  const TimeNs length =
      std::max<TimeNs>(elapsed(first(), last()) / static_cast<TimeNs>(starts.size()), 1);
  return -(elapsed(time, first()) / length);
}

}  // namespace traintrace
