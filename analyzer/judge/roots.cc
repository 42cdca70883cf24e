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

// Who waits for whom is known, and not what any of them did otherwise than it should.  Messages
// have no numbers that all members share.
bool is_unexplained(const WaitGraph& graph) {
  return !graph.hangs.empty() &&
         std::all_of(graph.hangs.begin(), graph.hangs.end(), [&](const Hang& hang) {
           const WaitKind kind = graph.waits[hang.wait].kind;
           return hang.divergences.empty() &&
                  (hang.fate == Fate::kCircle ||
                   (hang.fate == Fate::kAlive &&
                    (kind == WaitKind::kReceive || kind == WaitKind::kSend)));
         });
}

WaitGraph graph_of(const Run& run, Blocked blocked) {
  WaitGraph graph;
  if (blocked.frontiers) {
    graph = roots_of(run, std::move(*blocked.frontiers));
    explain_by_departures(run, DeparturesFrom::kOrder, graph);
  } else {
    graph.waits = std::move(blocked.waits);
    graph.hangs = find_hangs(run, graph.waits);
    if (is_unexplained(graph)) {
      explain_by_departures(run, DeparturesFrom::kStreams, graph);
    }
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
