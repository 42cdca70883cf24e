#include "analyzer/model/waiting/pace.h"

#include <algorithm>
#include <string>
#include <vector>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/open_calls.h"
#include "analyzer/model/waiting/late_hosts.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

// From the end of a wait for a stream or the device, when what was given to it is done, to the next
// call of the process, but for queries: its GPU had nothing to do, so that this is no measure of
// how long it takes.
Spans without_work(const ProcessTrace& trace, TimeNs until) {
  std::vector<TimeNs> ends;
  std::vector<TimeNs> calls;
  for (const CallRecord& event : trace.events) {
    const CallSchema* const schema = event.moment ? nullptr : schema_of(trace, event.call);
    if (schema == nullptr || event.enter > until) {
      continue;
    }
    if (schema->kind != "query" && schema->kind != "comm-query") {
      calls.push_back(event.enter_lost ? event.leave : event.enter);
    }
    if (schema->kind == "sync" && !waits_for_event(*schema) && event.returned &&
        event.leave <= until) {
      ends.push_back(event.leave);
    }
  }
  std::sort(calls.begin(), calls.end());
  std::vector<Span> spans;
  for (const TimeNs end : ends) {
    const auto next = std::lower_bound(calls.begin(), calls.end(), end);
    spans.push_back({end, next == calls.end() ? until : *next});
  }
  return united(std::move(spans));
}

bool lost_records(const ProcessTrace& trace) {
  return std::any_of(trace.threads.begin(), trace.threads.end(),
                     [](const ThreadText& thread) { return thread.dropped != 0; });
}

// Of those that returned before `until`.
TimeNs longest_call(const Run& run, const ProcessTrace& trace, TimeNs until) {
  TimeNs longest = 0;
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    // Not what only the start of a job takes.
    const bool of_steps = schema != nullptr && (schema->kind == "sync" || schema->kind == "copy");
    if (of_steps && event.returned && !event.enter_lost && event.leave <= until) {
      longest = std::max(longest, without_late_hosts(run, event.enter, event.leave));
    }
  }
  return longest;
}

// From one operation to the next.
TimeNs longest_gap(const Run& run, const Member& member, TimeNs until, bool& any) {
  const ProcessTrace& trace = run.processes[member.process];
  const std::vector<OperationText>& recent = text_of(run, member).recent;
  const Spans idle = lost_records(trace) ? Spans() : without_work(trace, until);
  TimeNs longest = 0;
  for (size_t i = 1; i < recent.size() && recent[i].enter <= until; ++i) {
    any = true;
    const Span gap{recent[i - 1].enter, recent[i].enter};
    if (elapsed(gap.begin_ns, gap.end_ns) <= longest) {
      continue;
    }
    // What counts for both is not taken off twice.
    const Spans off = united(within(run.late_hosts, gap), within(idle, gap));
    longest = std::max(longest, elapsed(gap.begin_ns, gap.end_ns) - length_ns(off));
  }
  return longest;
}

}  // namespace

TimeNs pace_of(const Run& run, const Communicator& communicator, TimeNs until) {
  TimeNs longest = 0;
  bool any = false;
  for (const Member& member : communicator.members) {
    longest = std::max(longest, longest_gap(run, member, until, any));
    longest = std::max(longest, longest_call(run, run.processes[member.process], until));
  }
  // Nothing to compare with: what comes first takes longest.
  return any ? longest : run.hang_after;
}

}  // namespace traintrace
