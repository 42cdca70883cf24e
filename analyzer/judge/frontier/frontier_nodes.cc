#include <algorithm>

#include "analyzer/judge/frontier/frontier_parts.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/progress.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

class NodeFinder {
 public:
  NodeFinder(const Run& run, BlockedFrontiers& blocked) : run_(run), blocked_(blocked) {}

  void find() {
    add_nodes();
    for (auto& [rank, node] : blocked_.nodes) {
      find_progress(node);
    }
    find_those_that_went_on();
    find_gone();
  }

 private:
  void add_nodes() {
    for (const RankState& state : run_.ranks) {
      blocked_.nodes[state.rank] = {state.rank, &state, blocked_.standings.frontier(state.rank)};
    }
    for (const Communicator& communicator : run_.communicators) {
      for (const Rank rank : communicator.absent) {
        blocked_.nodes.try_emplace(rank, Node{rank});
      }
    }
  }

  bool is_diverged(size_t communicator) const {
    return std::any_of(run_.divergences.begin(), run_.divergences.end(),
                       [&](const Divergence& divergence) {
                         return divergence.communicator == communicator &&
                                divergence.kind != DivergenceKind::kHarmlessType &&
                                !is_of_messages(divergence.kind);
                       });
  }

  // What a peer has completed, this rank's GPU has had all that it needed for.
  void find_progress(Node& node) {
    if (node.unit != nullptr && node.unit->first().collective && node.unit->first().sequence == 0) {
      node.unit = nullptr;  // which it is, nobody knows
    }
    if (node.unit == nullptr || !blocked_.standings.needs_all(run_, *node.unit) ||
        is_diverged(node.unit->communicator)) {
      return;
    }
    const uint64_t sequence = node.unit->first().sequence;
    for (const Member& other : run_.communicators[node.unit->communicator].members) {
      const auto through = other.rank == node.rank
                               ? std::nullopt
                               : through_at(run_, blocked_.standings, other, sequence);
      if (!through) {
        continue;
      }
      const TimeNs since = std::max(*through, node.unit->first().enter);
      if (elapsed(since, node.state->last_seen) < run_.hang_after) {
        node.open = true;
      } else {
        insert(node.through, other.rank);
      }
    }
    node.stalled = !node.open && !node.through.empty();
    node.unit = node.open ? nullptr : node.unit;
  }

  // Its own dump ends before what others tell that it has called.
  void find_those_that_went_on() {
    went_on_ = that_went_on(run_);
    for (const Rank rank : went_on_) {
      Node& node = blocked_.nodes.at(rank);
      node.open = true;
      node.stalled = false;
      node.through.clear();
      node.unit = nullptr;
    }
  }

  // It wrote its dump long before all others theirs, and before any time limit of its own had
  // passed: as a process does that ends.
  bool wrote_early(const Node& node) const {
    const ProcessTrace& trace = trace_of(run_, *node.state);
    const auto made = trace.facts.find("dump-time");
    return made != trace.facts.end() && made->second != "assumed" &&
           (trace.first_limit == 0 ||
            elapsed(node.state->last_seen, trace.first_limit) > kDumpsApart / 2) &&
           std::all_of(run_.ranks.begin(), run_.ranks.end(), [&](const RankState& other) {
             return other.rank == node.rank ||
                    elapsed(node.state->last_seen, other.last_seen) > kDumpsApart;
           });
  }

  // What it had issued its GPU may have completed after that.
  void find_gone() {
    for (auto& [rank, node] : blocked_.nodes) {
      if (run_.ranks.size() > 1 && node.state != nullptr && !contains(went_on_, rank) &&
          wrote_early(node)) {
        node.gone = true;
        node.open = node.stalled = false;
      }
    }
  }

  const Run& run_;
  BlockedFrontiers& blocked_;
  Ranks went_on_;
};

}  // namespace

void find_nodes(const Run& run, BlockedFrontiers& blocked) {
  NodeFinder(run, blocked).find();
}

}  // namespace traintrace
