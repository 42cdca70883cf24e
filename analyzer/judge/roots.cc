#include <algorithm>
#include <iterator>
#include <utility>

#include "analyzer/isolation/stage.h"
#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/judge/frontier/frontier_root.h"
#include "analyzer/judge/stages.h"
#include "analyzer/match/explain_departures.h"
#include "analyzer/match/fresh_pairs.h"
#include "analyzer/match/lacking_batches.h"
#include "analyzer/match/longer_rows.h"
#include "analyzer/model/older_operations.h"
#include "analyzer/model/process/sampled_place.h"
#include "analyzer/model/waiting/hangs.h"
#include "analyzer/model/waiting/stalls.h"

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

// Whoever asks a wrong peer does not come to what else is awaited of it, by that peer perhaps.
bool is_awaited_meanwhile(const Divergence& one, const Hang& hang) {
  return one.kind == DivergenceKind::kWrongPeer && !hang.roots.empty() &&
         std::all_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return contains(one.deviants, rank); });
}

// A message to a wrong peer is not answered there: that is what comes of it, and no other fault.
void explain_by_wrong_peers(const Run& run, WaitGraph& graph) {
  for (Hang& hang : graph.hangs) {
    for (size_t i = 0; i < run.divergences.size() && hang.divergences.empty(); ++i) {
      if (is_asked_of_wrong_peer(run.divergences[i], graph.waits[hang.wait]) ||
          is_awaited_meanwhile(run.divergences[i], hang)) {
        hang.divergences.push_back(i);
      }
    }
  }
}

// The calls of the members differ in that operation too.
bool differs_in(const Divergence& one, const Stall& stall) {
  const auto is_other = [&](const StalledRank& rank) {
    const StalledRank& first = stall.ranks.front();
    return rank.operation.peer != first.operation.peer ||
           rank.operation.count != first.operation.count ||
           rank.operation.data_type != first.operation.data_type;
  };
  return one.communicator == stall.communicator && one.sequence <= stall.sequence &&
         !is_harmless(one.kind) && !is_of_messages(one.kind) && !stall.ranks.empty() &&
         std::any_of(stall.ranks.begin(), stall.ranks.end(), is_other);
}

// A GPU that does not finish what its peers have finished lacks nothing of its own where that call
// is one of those that differ: that is what comes of it, and no other fault.
void explain_by_differing_calls(Run& run) {
  std::vector<Hang>& hangs = run.waits.hangs;
  if (run.divergences.empty() || std::none_of(hangs.begin(), hangs.end(), [](const Hang& hang) {
        return hang.blocked && hang.divergences.empty();
      })) {
    return;
  }
  const std::vector<Stall> stalls = find_stalls(run);
  for (Hang& hang : hangs) {
    for (size_t i = 0; i < run.divergences.size() && hang.blocked && hang.divergences.empty();
         ++i) {
      const bool explains = std::any_of(stalls.begin(), stalls.end(), [&](const Stall& stall) {
        return differs_in(run.divergences[i], stall) && holds_up(run, stalls, stall, hang);
      });
      if (explains) {
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
    explain_by_differing_calls(run);
  });
  run_stage("model sampled places", [&] { find_sampled_roots(run, read_events); });
}

}  // namespace traintrace
