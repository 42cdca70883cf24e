#include "analyzer/judge/frontier/frontier.h"

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/progress.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

TimeNs longest_open(const Run& run) {
  TimeNs longest = 0;
  for (const ProcessTrace& trace : run.processes) {
    for (const CommunicatorText& text : trace.communicators) {
      for (const OperationText& operation : text.recent) {
        if (certainly_unfinished(gpu_state(trace, operation))) {
          longest = std::max(longest, elapsed(operation.enter, trace.last_alive));
        }
      }
    }
  }
  return longest;
}

bool are_read_from_dumps(const Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(),
                     [](const ProcessTrace& trace) { return trace.facts.contains("dump-time"); });
}

}  // namespace

bool knows_order_only(const Run& run) {
  return !run.processes.empty() &&
         std::all_of(run.processes.begin(), run.processes.end(), is_flight_dump);
}

bool are_dumps_dated(const Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(), [](const ProcessTrace& trace) {
    const auto fact = trace.facts.find("dump-time");
    return fact == trace.facts.end() || fact->second != "assumed";
  });
}

// A time limit of theirs has passed, or somebody asked about shorter waits.
bool may_hang(const Run& run) {
  const bool knows_limits =
      std::any_of(run.processes.begin(), run.processes.end(),
                  [](const ProcessTrace& trace) { return trace.first_limit != 0; });
  if (run.hang_after != kHangAfter) {
    return true;
  }
  return knows_limits
             ? std::any_of(run.processes.begin(), run.processes.end(),
                           [](const ProcessTrace& trace) {
                             return trace.first_limit != 0 &&
                                    elapsed(trace.first_limit, trace.last_alive) >= -kLimitRounded;
                           })
             : !are_read_from_dumps(run) || !are_dumps_dated(run) ||
                   longest_open(run) >= kLeastLimit;
}

const Divergence& divergence_at(const Run& run, const WaitGraph& graph, size_t index) {
  const size_t known = run.divergences.size();
  return index < known ? run.divergences[index] : graph.divergences[index - known];
}

}  // namespace traintrace
