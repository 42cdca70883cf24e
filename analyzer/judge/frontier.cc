#include "analyzer/judge/frontier.h"

#include <algorithm>

#include "analyzer/judge/root.h"
#include "analyzer/match/explain_departures.h"
#include "analyzer/model/build_run.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/idle_host.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// A time limit of theirs has passed, or somebody asked about shorter waits.
bool may_hang(const Run& run) {
  const bool knows_limits =
      std::any_of(run.processes.begin(), run.processes.end(),
                  [](const ProcessTrace& trace) { return trace.first_limit != 0; });
  return !knows_limits || run.hang_after != kHangAfter ||
         std::any_of(run.processes.begin(), run.processes.end(), [](const ProcessTrace& trace) {
           return trace.first_limit != 0 &&
                  elapsed(trace.first_limit, trace.last_alive) >= -kLimitRounded;
         });
}

}  // namespace

bool knows_order_only(const Run& run) {
  return !run.processes.empty() &&
         std::all_of(run.processes.begin(), run.processes.end(), is_flight_dump);
}

WaitGraph frontier_graph(const Run& run) {
  WaitGraph graph;
  if (may_hang(run)) {
    graph = roots_of(run, blocked(run));
    explain_by_departures(run, graph);
  }
  graph.by_frontier = true;
  return graph;
}

}  // namespace traintrace
