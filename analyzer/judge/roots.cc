#include <algorithm>
#include <iterator>
#include <utility>

#include "analyzer/isolation/stage.h"
#include "analyzer/judge/frontier.h"
#include "analyzer/judge/frontier_root.h"
#include "analyzer/judge/stages.h"
#include "analyzer/match/explain_departures.h"
#include "analyzer/match/fresh_pairs.h"
#include "analyzer/match/lacking_batches.h"
#include "analyzer/match/longer_rows.h"
#include "analyzer/model/older_operations.h"
#include "analyzer/model/waiting/hangs.h"

namespace traintrace {
namespace {

// Who waits for whom is known, and not who of them did otherwise than it should.  Messages have no
// numbers that all members share; what is missing from a collective may wait itself.
bool is_unexplained(const Run& run, const WaitGraph& graph) {
  return !graph.hangs.empty() &&
         std::all_of(graph.hangs.begin(), graph.hangs.end(), [&](const Hang& hang) {
           const WaitKind kind = graph.waits[hang.wait].kind;
           const bool open =
               std::all_of(hang.divergences.begin(), hang.divergences.end(), [&](size_t index) {
                 const Divergence& one = run.divergences[index];
                 return one.tie;
               });
           return open &&
                  (hang.fate == Fate::kCycle ||
                   (hang.fate == Fate::kAlive &&
                    (hang.blocked || kind == WaitKind::kReceive || kind == WaitKind::kSend)));
         });
}

// One rank is said to have left out a call or made one in excess, or all wait for one that has not
// come and that waits in something else itself: it may have made calls in another order.
bool may_have_other_calls(const Run& run, const WaitGraph& graph) {
  const auto is_waiting = [&](Rank rank) {
    return std::any_of(graph.waits.begin(), graph.waits.end(), [&](const Wait& wait) {
      return std::any_of(wait.waiters.begin(), wait.waiters.end(),
                         [&](const Waiter& waiter) { return waiter.rank == rank; });
    });
  };
  return std::any_of(
             run.divergences.begin(), run.divergences.end(),
             [](const Divergence& one) {
               return !one.tie && one.deviants.size() == 1 &&
                      (one.kind == DivergenceKind::kSkipped || one.kind == DivergenceKind::kExtra);
             }) ||
         (graph.hangs.size() == 1 && graph.hangs.front().fate == Fate::kAlive &&
          graph.hangs.front().roots.size() == 1 && is_waiting(graph.hangs.front().roots.front()));
}

bool is_asked_of_wrong_peer(const Divergence& one, const Wait& wait) {
  return one.kind == DivergenceKind::kWrongPeer && one.communicator == wait.communicator &&
         wait.kind != WaitKind::kCollective && wait.details.index == one.own.item.operation.index &&
         std::any_of(wait.waiters.begin(), wait.waiters.end(),
                     [&](const Waiter& waiter) { return contains(one.deviants, waiter.rank); });
}

// A message to a wrong peer is not answered there: that is what comes of it, and no other fault.
void explain_by_wrong_peers(const Run& run, WaitGraph& graph) {
  for (Hang& hang : graph.hangs) {
    for (size_t i = 0; i < run.divergences.size() && hang.divergences.empty(); ++i) {
      if (is_asked_of_wrong_peer(run.divergences[i], graph.waits[hang.wait])) {
        hang.divergences.push_back(i);
      }
    }
  }
}

WaitGraph graph_of(Run& run, Blocked blocked, const ReadEvents& read_events) {
  WaitGraph graph;
  if (blocked.frontiers) {
    graph = roots_of(run, std::move(*blocked.frontiers));
    explain_by_wrong_peers(run, graph);
    explain_by_departures(run, DeparturesFrom::kOrder, read_events, graph);
    if (!graph.departed) {
      find_fresh_pairs(run, graph);
      find_lacking_batches(run, graph);
      find_longer_rows(run, graph);
    }
  } else {
    graph.waits = std::move(blocked.waits);
    graph.hangs = find_hangs(run, graph.waits);
    const WithoutOlderOperations tables(run);
    if (is_unexplained(run, graph)) {
      explain_by_departures(run, DeparturesFrom::kStreams, read_events, graph);
    }
    if (!graph.departed && may_have_other_calls(run, graph)) {
      correct_by_departures(run, read_events, graph);
    }
    if (!graph.departed) {
      find_fresh_pairs(run, graph);
      find_lacking_batches(run, graph);
      find_longer_rows(run, graph);
    }
  }
  graph.by_frontier = knows_order_only(run);
  std::move(blocked.within_limits.begin(), blocked.within_limits.end(),
            std::back_inserter(graph.within_limits));
  return graph;
}

}  // namespace

void find_roots(Run& run, Blocked blocked, const ReadEvents& read_events) {
  run_stage("model roots", [&] {
    run.waits = graph_of(run, std::move(blocked), read_events);
    if (run.waits.departed) {
      std::erase_if(run.divergences, [](const Divergence& one) { return !is_harmless(one.kind); });
    }
    std::move(run.waits.divergences.begin(), run.waits.divergences.end(),
              std::back_inserter(run.divergences));
  });
}

}  // namespace traintrace
