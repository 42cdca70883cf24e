#include "analyzer/model/waiting/late_hosts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/event_operations.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/lateness.h"
#include "analyzer/model/waiting/stalls.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

constexpr size_t kMostRead = 4;      // processes: each takes all its events
constexpr size_t kMostTables = 128;  // of a run whose older calls are read: all its events, too
constexpr size_t kMostOlder = 1024;  // operations of a process: each is compared with its peers'

// The tables of a run with what its event records have of the time before them, and as they were
// once this ends.
class LongerTables {
 public:
  // `read_events`: null, if there are none but those in the traces.
  LongerTables(Run& run, const ReadEvents& read_events) : run_(run) {
    for (ProcessTrace& trace : run_.processes) {
      std::vector<std::vector<OperationText>>& kept = kept_.emplace_back();
      for (const CommunicatorText& text : trace.communicators) {
        kept.push_back(text.recent);
      }
      const bool here = !trace.events.empty() || !read_events || !has_older(trace);
      const ProcessTrace* const whole = here ? &trace : read_events(trace);
      if (whole != nullptr && whole->communicators.size() == trace.communicators.size()) {
        add_older(*whole, trace);
      }
    }
  }
  ~LongerTables() {
    for (size_t i = 0; i < kept_.size(); ++i) {
      for (size_t element = 0; element < kept_[i].size(); ++element) {
        run_.processes[i].communicators[element].recent = std::move(kept_[i][element]);
      }
    }
  }
  LongerTables(const LongerTables&) = delete;
  LongerTables& operator=(const LongerTables&) = delete;

 private:
  // It has called more than its tables keep.
  static bool has_older(const ProcessTrace& trace) {
    return std::any_of(trace.communicators.begin(), trace.communicators.end(),
                       [](const CommunicatorText& text) {
                         return !text.recent.empty() && text.recent.front().index > 0;
                       });
  }

  static void add_older(const ProcessTrace& whole, ProcessTrace& trace) {
    // Those of the tables come first in both.
    for (size_t call = trace.calls.size(); call < whole.calls.size(); ++call) {
      trace.calls.push_back(whole.calls[call]);
    }
    std::vector<std::vector<OperationText>> older(trace.communicators.size());
    for (EventOperation& one : newest_event_operations(whole, kMostOlder)) {
      const std::vector<OperationText>& recent = trace.communicators[one.communicator].recent;
      if (!recent.empty() && one.operation.enter < recent.front().enter) {
        one.operation.flags = format::kLaunched | format::kFinished;
        older[one.communicator].push_back(one.operation);
      }
    }
    for (size_t element = 0; element < older.size(); ++element) {
      std::vector<OperationText>& recent = trace.communicators[element].recent;
      recent.insert(recent.begin(), older[element].begin(), older[element].end());
    }
  }

  Run& run_;
  std::vector<std::vector<std::vector<OperationText>>> kept_;  // by process and element
};

bool is_under_way(const Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(), [](const ProcessTrace& trace) {
    return std::any_of(trace.communicators.begin(), trace.communicators.end(),
                       [&](const CommunicatorText& text) {
                         return !text.recent.empty() && !finished(trace, text.recent.back());
                       });
  });
}

// What they are for: how fast the job was is asked about what does not end.
bool asks_for_pace(const Run& run) {
  return run.processes.size() <= kMostTables && !find_stalls(run, HostWait::kAtMost).empty();
}

// In which the rank was late; by process.  As far back as records go: calls of that time count in
// the pace of the job too.
std::map<size_t, std::map<Rank, std::vector<Span>>> late_spans(Run& run,
                                                               const ReadEvents& read_events) {
  const LongerTables longer(run, read_events);
  std::map<size_t, std::map<Rank, std::vector<Span>>> spans;
  for (const Lateness& lateness : find_all_lateness(run, FirstCollective::kCounted)) {
    for (const Rank rank : lateness.late) {
      spans[state_of(run, rank)->process][rank].push_back({lateness.from, lateness.until});
    }
  }
  return spans;
}

// Of these times those in which the rank was outside of calls, as far as `trace` has its records.
Spans outside_calls(const ProcessTrace& trace, const RankState& state, std::vector<Span> late) {
  std::vector<Span> calls;
  std::map<uint32_t, TimeNs> begins;  // of what is kept, by thread
  for (const CallRecord& event : trace.events) {
    if (event.moment || (state.device >= 0 && event.device != state.device)) {
      continue;
    }
    const TimeNs from = event.enter_lost ? event.leave : event.enter;
    const auto [begin, is_first] = begins.try_emplace(event.thread, from);
    begin->second = std::min(begin->second, from);
    calls.push_back({from, event.returned ? event.leave : std::numeric_limits<TimeNs>::max()});
  }
  std::erase_if(late, [&](const Span& span) {
    return std::none_of(trace.threads.begin(), trace.threads.end(), [&](const ThreadText& thread) {
      const auto begin = begins.find(thread.serial);
      return works_for(state, thread) && thread.dropped == 0 && begin != begins.end() &&
             begin->second <= span.begin_ns;
    });
  });
  return difference(united(std::move(late)), united(std::move(calls)));
}

}  // namespace

void find_late_hosts(Run& run, const ReadEvents& read_events) {
  if (!is_under_way(run)) {
    return;
  }
  const ReadEvents older = asks_for_pace(run) ? read_events : ReadEvents();
  size_t read = 0;
  for (auto& [process, by_rank] : late_spans(run, older)) {
    const ProcessTrace* trace = &run.processes[process];
    if (trace->events.empty()) {
      trace = read_events && read++ < kMostRead ? read_events(*trace) : nullptr;
    }
    for (auto& [rank, spans] : by_rank) {
      if (trace != nullptr) {
        run.late_hosts =
            united(run.late_hosts, outside_calls(*trace, *state_of(run, rank), std::move(spans)));
      }
    }
  }
}

TimeNs without_late_hosts(const Run& run, TimeNs from, TimeNs until) {
  const Spans whole(1, Span{from, until});
  return elapsed(from, until) - (from < until ? common_ns(whole, run.late_hosts) : 0);
}

}  // namespace traintrace
