#include "analyzer/detectors/hang/cycle_blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/other_label.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/detectors/hang/tense.h"
#include "analyzer/match/cycle_orders.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/divergence/usual_order.h"
#include "analyzer/model/sequences.h"
#include "analyzer/model/waiting/cycles.h"
#include "analyzer/model/waiting/hang_cause.h"

namespace traintrace {
namespace {

void blame(const Ranks& culprits, Finding& finding) {
  finding.culprits = culprits;
  std::erase_if(finding.victims, [&](Rank rank) { return contains(culprits, rank); });
  std::stable_partition(finding.where.begin(), finding.where.end(),
                        [&](const CodePlace& place) { return contains(culprits, place.rank); });
}

// Others wait for it in the cycle: who has called all that it has to holds nobody up.
bool is_awaited(const Run& run, const Hang& cycle, Rank rank) {
  return std::any_of(run.waits.waits.begin(), run.waits.waits.end(), [&](const Wait& wait) {
    return is_part(wait, cycle.roots) &&
           std::any_of(wait.awaited.begin(), wait.awaited.end(),
                       [&](const Awaited& awaited) { return awaited.rank == rank; });
  });
}

void blame_repair(const Ranks& culprits, Finding& finding) {
  blame(culprits, finding);
  std::stable_partition(finding.sides.begin(), finding.sides.end(),
                        [&](const Ranks& side) { return contains(side, culprits.front()); });
  finding.certainty = Certainty::kLikely;
  finding.evidence.push_back(
      fmt::format("if {} went on, this cycle would end; no other rank alone would end it",
                  ranks_text(culprits)));
}

// What that rank waits in, in the cycle.
std::optional<bool> departs(const Run& run, const Hang& cycle, Rank rank) {
  for (const Wait& wait : run.waits.waits) {
    const auto own = std::find_if(wait.waiters.begin(), wait.waiters.end(),
                                  [&](const Waiter& waiter) { return waiter.rank == rank; });
    if (is_part(wait, cycle.roots) && wait.kind != WaitKind::kInit && own != wait.waiters.end()) {
      return departs_from_habit(run, rank, wait.communicator, own->since);
    }
  }
  return std::nullopt;
}

// It is not known to have done as always, and no other in the cycle is known to have changed
// before it is.
bool may_be_first_to_change(const Run& run, const Hang& cycle, Rank rank) {
  const std::optional<bool> own = departs(run, cycle, rank);
  return own.value_or(std::none_of(cycle.roots.begin(), cycle.roots.end(), [&](Rank other) {
    return departs(run, cycle, other).value_or(false);
  }));
}

// Why those are blamed: "rank 5 called the operation on communicator a (2 ranks) first, ranks 4,6,7
// that on b (4 ranks)".
std::string order_text(const Run& run, const Hang& cycle, const Ranks& culprits, bool first_first,
                       const Ranks& others) {
  std::vector<const Communicator*> both;
  for (const Wait& wait : run.waits.waits) {
    if (is_part(wait, cycle.roots)) {
      both.push_back(&run.communicators[wait.communicator]);
    }
  }
  return fmt::format("{} called the operation on communicator {} first, {} that on {}",
                     ranks_text(culprits), label_of(run, *both[first_first ? 0 : 1]),
                     ranks_text(others), other_label_of(run, *both[first_first ? 1 : 0]));
}

// Who is missing from a creation, else who has the order that fewer ranks have, of those that have
// both operations to call, or their own in place of one.
void blame_minority(const Run& run, const Hang& cycle, Finding& finding) {
  if (const Ranks missing = missing_from_creation(run, cycle); !missing.empty()) {
    blame(missing, finding);
    return;
  }
  if (finding.sides.size() != 2) {
    // Messages alone go round in either direction; and who needs several others may be the one that
    // did as always.
    const auto rank = is_of_peers(run, cycle) ? std::nullopt : repair_of(run, cycle);
    if (rank && may_be_first_to_change(run, cycle, *rank)) {
      blame_repair({*rank}, finding);
    }
    return;
  }
  const std::optional<CycleOrders> orders = orders_in(run, cycle);
  const auto size_of = [](const CycleOrder& order) {
    return order.ranks.size() + order.alike.size();
  };
  if (!orders || size_of(orders->first) == size_of(orders->second)) {
    return;
  }
  const bool is_first = size_of(orders->first) < size_of(orders->second);
  const CycleOrder& most = is_first ? orders->second : orders->first;
  Ranks culprits = is_first ? orders->first.ranks : orders->second.ranks;
  std::erase_if(culprits, [&](Rank rank) { return !is_awaited(run, cycle, rank); });
  if (culprits.empty()) {
    return;
  }
  blame(culprits, finding);
  if (!most.ranks.empty()) {
    finding.evidence.push_back(order_text(run, cycle, culprits, is_first, most.ranks));
  }
  if (!most.alike.empty()) {
    finding.certainty = Certainty::kLikely;
    finding.evidence.push_back(
        fmt::format("{} came to it in the order of {}, each on communicators of its own",
                    ranks_text(most.alike), ranks_text(most.ranks)));
  }
}

// Of two, one waits for a message where the other came to another call of its step instead.
bool left_out_message(const Run& run, const Hang& cycle, const Ranks& changed) {
  bool message = false;
  bool known = false;
  for (const Wait& wait : run.waits.waits) {
    if (!is_part(wait, cycle.roots)) {
      continue;
    }
    for (const Waiter& waiter : wait.waiters) {
      const bool own = contains(changed, waiter.rank);
      known = known || (own && departs_to_known(run, waiter.rank, wait.communicator, waiter.since));
      message =
          message || (!own && (wait.kind == WaitKind::kReceive || wait.kind == WaitKind::kSend));
    }
  }
  return message && known;
}

// Wherever they wait in the cycle, it is one call of one line, if of several communicators.
bool wait_in_one_call(const Run& run, const Hang& cycle, const Ranks& ranks) {
  std::optional<std::tuple<std::string, uint64_t>> call;
  for (const Wait& wait : run.waits.waits) {
    if (!is_part(wait, cycle.roots)) {
      continue;
    }
    for (const Waiter& waiter : wait.waiters) {
      const std::tuple own(wait.operation, site_of(run.processes[waiter.process], waiter.stack));
      if (contains(ranks, waiter.rank) && call.value_or(own) != own) {
        return false;
      }
      call = contains(ranks, waiter.rank) ? own : call;
    }
  }
  return true;
}

// Of those who did otherwise than each time before the ones to blame: most do so because another
// did.  Who goes on and all are free may be it; of several only if they took the same wrong turn.
Ranks who_can_undo(const Run& run, const Hang& cycle, const Ranks& changed) {
  if (changed.size() > 1 && wait_in_one_call(run, cycle, changed)) {
    return changed;
  }
  Ranks found;
  std::copy_if(changed.begin(), changed.end(), std::back_inserter(found),
               [&](Rank rank) { return frees_all(run, cycle, rank); });
  return found.size() == 1 ? found : Ranks();
}

// Where the cycle's numbers do not tell: those who did otherwise than each time before, if they
// are fewer than those of the whole run who did not, or one against one.
void blame_change(const Run& run, const Hang& cycle, Finding& finding) {
  Ranks changed;
  size_t unchanged = 0;
  for (const RankState& state : run.ranks) {
    const bool inside = contains(cycle.roots, state.rank);
    const std::optional<bool> now =
        inside ? departs(run, cycle, state.rank) : departs_from_habit(run, state.rank);
    if (inside ? !now : now == true) {
      return;
    }
    if (now == true) {
      changed.push_back(state.rank);
    } else {
      unchanged += now ? 1 : 0;
    }
  }
  const bool few = changed.size() < unchanged ||
                   (changed.size() == 1 && unchanged == 1 && left_out_message(run, cycle, changed));
  if (!finding.culprits.empty() || changed.empty() || !few) {
    return;
  }
  const Ranks culprits = who_can_undo(run, cycle, changed);
  if (culprits.empty()) {
    return;
  }
  blame(culprits, finding);
  finding.certainty = Certainty::kLikely;
  finding.evidence.push_back(fmt::format(
      "{} issued a different call there in every earlier step; all other ranks are unchanged",
      ranks_text(culprits)));
}

// Who parted from ranks that run the same program, where nothing else tells.
void blame_departed(const Hang& cycle, Finding& finding) {
  if (!finding.culprits.empty() || cycle.twins.empty()) {
    return;
  }
  blame(cycle.culprits, finding);
  finding.certainty = Certainty::kLikely;
  finding.evidence.push_back(
      cycle.by_habit ? fmt::format("{}; in earlier steps {} went on from there as {} did now",
                                   parted_text(cycle.twins, cycle.culprits),
                                   ranks_text(cycle.culprits), ranks_text(cycle.twins))
                     : parted_text(cycle.twins, cycle.culprits));
}

}  // namespace

void blame_in_cycle(const Run& run, const Hang& cycle, Finding& finding) {
  if (!run.waits.by_frontier) {
    blame_minority(run, cycle, finding);
    blame_change(run, cycle, finding);
    blame_departed(cycle, finding);
  } else if (!cycle.culprits.empty()) {
    blame_repair(cycle.culprits, finding);
  }
}

}  // namespace traintrace
