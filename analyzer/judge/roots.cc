#include <algorithm>
#include <iterator>
#include <utility>

#include "analyzer/isolation/stage.h"
#include "analyzer/judge/frontier.h"
#include "analyzer/judge/frontier_root.h"
#include "analyzer/judge/stages.h"
#include "analyzer/match/explain_departures.h"
#include "analyzer/model/hangs.h"

namespace traintrace {
namespace {

WaitGraph graph_of(const Run& run, Blocked blocked) {
  WaitGraph graph;
  if (blocked.frontiers) {
    graph = roots_of(run, std::move(*blocked.frontiers));
    explain_by_departures(run, graph);
  } else {
    graph.waits = std::move(blocked.waits);
    graph.hangs = find_hangs(run, graph.waits);
  }
  graph.by_frontier = knows_order_only(run);
  return graph;
}

}  // namespace

void find_roots(Run& run, Blocked blocked) {
  run_stage("model roots", [&] {
    run.waits = graph_of(run, std::move(blocked));
    if (run.waits.departed) {
      std::erase_if(run.divergences, [](const Divergence& one) { return !is_harmless(one.kind); });
    }
    std::move(run.waits.divergences.begin(), run.waits.divergences.end(),
              std::back_inserter(run.divergences));
  });
}

}  // namespace traintrace
