#include "analyzer/detectors/hang/cycle_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/other_label.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/detectors/hang/tense.h"
#include "analyzer/match/cycle_orders.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/divergence/usual_order.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/sequences.h"
#include "analyzer/model/waiting/cycles.h"
#include "analyzer/model/waiting/hang_cause.h"

namespace traintrace {
namespace {

Ranks waiting_in(const Wait& wait) {
  Ranks ranks;
  for (const Waiter& waiter : wait.waiters) {
    ranks.push_back(waiter.rank);
  }
  return ranks;
}

}  // namespace

std::string who_waits_where(const Run& run, const Wait& wait, const Ranks& cycle) {
  const Ranks waiting = waiting_in(wait);
  Ranks awaited;
  for (const Awaited& other : wait.awaited) {
    if (contains(cycle, other.rank)) {
      awaited.push_back(other.rank);
    }
  }
  return fmt::format("{} {} in {} for {}", ranks_text(waiting), waits_word(run, waiting),
                     operation_text(run, wait), ranks_text(awaited));
}

namespace {

void add_parts(const Run& run, const Hang& cycle, Finding& finding) {
  for (const Wait& wait : run.waits.waits) {
    if (!is_part(wait, cycle.roots)) {
      continue;
    }
    Ranks side;
    for (const Waiter& waiter : wait.waiters) {
      side.push_back(waiter.rank);
    }
    finding.sides.push_back(side);
    const Communicator& communicator = run.communicators[wait.communicator];
    const bool known = std::any_of(finding.communicators.begin(), finding.communicators.end(),
                                   [&](const auto& other) { return other.id == communicator.id; });
    if (!known) {
      finding.communicators.push_back({communicator.id, communicator.name, communicator.size});
    }
  }
}

std::string who_waits_for_whom(const Run& run, const Ranks& cycle, const Ranks& culprits) {
  Ranks others = cycle;
  std::erase_if(others, [&](Rank rank) { return contains(culprits, rank); });
  return culprits.empty() || others.empty() || others.size() == cycle.size()
             ? fmt::format("{} {} for each other", ranks_text(cycle), waits_word(run, cycle))
             : fmt::format("{} and {} {} for each other", ranks_text(culprits), ranks_text(others),
                           waits_word(run, cycle));
}

std::vector<const Wait*> parts_of(const Run& run, const Hang& cycle) {
  std::vector<const Wait*> parts;
  for (const Wait& wait : run.waits.waits) {
    if (is_part(wait, cycle.roots)) {
      parts.push_back(&wait);
    }
  }
  return parts;
}

// Whom each waits for, where that is one of them and each is waited for by one: 0, 1, 2 of "0 -> 1
// -> 2 -> 0".  Empty: it is no such ring.
std::vector<Rank> ring_of(const Hang& cycle, const std::vector<const Wait*>& parts) {
  std::map<Rank, Rank> next;
  for (const Wait* const wait : parts) {
    Ranks awaited;
    for (const Awaited& other : wait->awaited) {
      if (contains(cycle.roots, other.rank)) {
        insert(awaited, other.rank);
      }
    }
    if (wait->waiters.size() != 1 || awaited.size() != 1 ||
        !next.emplace(wait->waiters.front().rank, awaited.front()).second) {
      return {};
    }
  }
  std::vector<Rank> ring;
  for (auto at = next.begin(); at != next.end(); at = next.find(at->second)) {
    if (std::find(ring.begin(), ring.end(), at->first) != ring.end()) {
      break;
    }
    ring.push_back(at->first);
  }
  return ring.size() == cycle.roots.size() ? ring : std::vector<Rank>();
}

// "ranks 0-7 wait in a ring, 0 -> 1 -> 2 -> .. -> 7 -> 0, each in ncclSend on communicator pp (8
// ranks)", where all wait in the same operation; empty: they do not.
std::string ring_title(const Run& run, const Hang& cycle, const std::vector<const Wait*>& parts) {
  constexpr size_t kMostRanks = 5;
  constexpr size_t kFewestRanks = 3;
  const std::vector<Rank> ring = ring_of(cycle, parts);
  const bool is_one_operation = std::all_of(
      parts.begin(), parts.end(),
      [&](const Wait* const wait) { return wait->operation == parts.front()->operation; });
  if (ring.size() < kFewestRanks || !is_one_operation) {
    return "";
  }
  std::string path;
  for (size_t i = 0; i < ring.size(); ++i) {
    const bool shown = ring.size() <= kMostRanks || i < 3 || i + 1 == ring.size();
    path += shown ? fmt::format("{} -> ", ring[i].value) : i == 3 ? ".. -> " : "";
  }
  return fmt::format("{} {} in a ring, {}{}, each in {} on {}", ranks_text(cycle.roots),
                     waits_word(run, cycle.roots), path, ring.front().value,
                     parts.front()->operation, communicators_text(run, parts));
}

// Where the culprits wait comes first, then where most do for them; a line is read at a glance, so
// it holds no more than two of them.
constexpr size_t kMostPartsOfTitle = 2;

std::string cycle_title(const Run& run, const Hang& cycle, const Ranks& culprits) {
  std::vector<const Wait*> parts = parts_of(run, cycle);
  if (std::string ring = ring_title(run, cycle, parts); !ring.empty() && culprits.empty()) {
    return ring;
  }
  const auto of_culprits = [&](const auto& ranks) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const auto& one) { return contains(culprits, one.rank); });
  };
  std::stable_sort(parts.begin(), parts.end(), [&](const Wait* a, const Wait* b) {
    return std::tuple(of_culprits(a->waiters), of_culprits(a->awaited)) >
           std::tuple(of_culprits(b->waiters), of_culprits(b->awaited));
  });
  const std::string title = who_waits_for_whom(run, cycle.roots, culprits);
  if (parts.size() == 2) {  // each for the other
    return fmt::format("{}: {} in {}, {} in {}", title, ranks_text(waiting_in(*parts[0])),
                       operation_text(run, *parts[0]), ranks_text(waiting_in(*parts[1])),
                       operation_text(run, *parts[1]));
  }
  std::string text = title;
  const size_t shown = std::min(parts.size(), kMostPartsOfTitle);
  for (size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? ": " : "; ") + who_waits_where(run, *parts[i], cycle.roots);
  }
  const size_t more = parts.size() - shown;
  return more == 0 ? text : text + fmt::format("; {} more wait{}", more, more == 1 ? "s" : "");
}

// Who waits for whom, of a cycle of which the title does not tell it.
void add_all_waits(const Run& run, const Hang& cycle, Finding& finding) {
  const std::vector<const Wait*> parts = parts_of(run, cycle);
  std::vector<std::string> lines;
  lines.reserve(parts.size());
  for (const Wait* const wait : parts) {
    lines.push_back(who_waits_where(run, *wait, cycle.roots));
  }
  const bool is_told = finding.culprits.empty() && !ring_title(run, cycle, parts).empty();
  if (parts.size() > kMostPartsOfTitle && !is_told) {
    add_lines(lines, finding.evidence);
  }
}

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

// Its last call is the one that it waits in, of which a line says when and where.
bool is_inside_its_wait(const Run& run, const Hang& cycle, Rank rank) {
  const RankState* const state = state_of(run, rank);
  const auto activity = state == nullptr ? std::nullopt : activity_of(run, *state);
  const std::vector<const Wait*> parts = parts_of(run, cycle);
  return activity && activity->open &&
         std::any_of(parts.begin(), parts.end(), [&](const Wait* const wait) {
           return activity->call == wait->operation &&
                  std::any_of(wait->waiters.begin(), wait->waiters.end(),
                              [&](const Waiter& waiter) { return waiter.rank == rank; });
         });
}

// Where everything has been called, or nothing but the order of calls is known, the lines to change
// are those that called what the culprits wait in, not where their hosts are.
void add_calls(const Run& run, const Hang& cycle, Finding& finding) {
  std::vector<CodePlace> calls;
  const bool by_calls =
      order_of(run, cycle) == Order::kCalled || is_all_called(run.waits.waits, cycle);
  const std::vector<const Wait*> parts = parts_of(run, cycle);
  add_lines(wait_lines(run, parts), finding.evidence);
  for (const Wait* const wait : parts) {
    for (const Waiter& waiter : wait->waiters) {
      const auto place = contains(finding.culprits, waiter.rank)
                             ? user_place(run.processes[waiter.process], waiter.rank, waiter.stack)
                             : std::nullopt;
      if (place && calls.size() < kManyEvidenceLines) {
        calls.push_back(*place);
      }
    }
  }
  if (by_calls) {
    std::erase_if(finding.where, [&](const CodePlace& place) {
      return std::find(calls.begin(), calls.end(), place) != calls.end();
    });
    finding.where.insert(finding.where.begin(), calls.begin(), calls.end());
  }
}

}  // namespace

Finding cycle_finding(const Run& run, const Hang& cycle, std::string_view code) {
  Finding finding = hang_finding(run, cycle, code);
  finding.sides.clear();
  finding.evidence.clear();
  add_parts(run, cycle, finding);
  if (!run.waits.by_frontier) {
    blame_minority(run, cycle, finding);
    blame_change(run, cycle, finding);
    blame_departed(cycle, finding);
  } else if (!cycle.culprits.empty()) {
    blame_repair(cycle.culprits, finding);
  }
  finding.title = cycle_title(run, cycle, finding.culprits);
  add_all_waits(run, cycle, finding);
  add_calls(run, cycle, finding);
  Ranks elsewhere = cycle.roots;
  std::erase_if(elsewhere, [&](Rank rank) { return is_inside_its_wait(run, cycle, rank); });
  add_lines(last_call_lines(run, elsewhere), finding.evidence);
  return finding;
}

Finding ordered_cycle_finding(const Run& run, const Hang& cycle, std::string_view code) {
  const Order order = order_of(run, cycle);
  Finding finding = cycle_finding(run, cycle, code);
  const bool sure = order == Order::kCertain && !doubts_about(run, cycle).any();
  finding.certainty = std::max(finding.certainty, sure ? Certainty::kProof : Certainty::kLikely);
  if (order == Order::kThread) {
    finding.evidence.push_back(
        "not proof: a further thread of one of them is in no call, and may yet go there");
  }
  if (order == Order::kCalled) {
    finding.evidence.push_back(
        "not proof: what lies on which stream is not recorded; what was called first is taken to "
        "come first");
  }
  const bool open = !run.waits.by_frontier || cycle.culprits.empty();
  const bool may_overtake =
      open && order == Order::kCalled && is_all_called(run.waits.waits, cycle);
  if ((order == Order::kNone && open) || may_overtake) {
    finding.certainty = Certainty::kPossible;
    finding.culprits.clear();
    finding.victims = cycle.victims;
    finding.evidence.push_back(
        may_overtake ? "not sure: all have called all of it, and streams may overtake each other"
                     : "not sure: nothing that was seen keeps one of them from going on");
  }
  return finding;
}

std::string order_advice(const Run& run, const Hang& cycle, const Finding& finding,
                         std::string_view ordered) {
  if (is_all_called(run.waits.waits, cycle)) {
    return std::string(ordered);
  }
  return fmt::format(
      "see whether {} left out a call that the others wait for, or makes it in another order: {}",
      finding.culprits.empty() ? "one of them" : ranks_text(finding.culprits), ordered);
}

std::optional<Finding> left_out_send(const Run& run, const Hang& cycle, std::string_view code) {
  if (!is_of_receives(run, cycle) || order_of(run, cycle) == Order::kNone) {
    return std::nullopt;
  }
  const Ranks changed = cycle_finding(run, cycle, code).culprits;
  if (changed.size() != 1 || !contains(cycle.roots, changed.front())) {
    return std::nullopt;
  }
  Hang one = cycle;
  const std::vector<Wait>& waits = run.waits.waits;
  const auto lacking = std::find_if(waits.begin(), waits.end(), [&](const Wait& wait) {
    return is_part(wait, cycle.roots) && wait.awaited.front().rank == changed.front();
  });
  one.wait = static_cast<size_t>(lacking - waits.begin());
  Finding finding = cycle_finding(run, one, code);
  const Ranks waiting = waiting_in(*lacking);
  finding.title = fmt::format(
      "{} {} in {}; {} {} for each other", ranks_text(changed),
      never_text(
          run, changed,
          fmt::format("sent what {} await{}", ranks_text(waiting), waiting.size() == 1 ? "s" : "")),
      operation_text(run, *lacking), ranks_text(cycle.roots), waits_word(run, cycle.roots));
  return finding;
}

bool is_cycle(const Run& run, const Hang& hang) {
  return hang.fate == Fate::kCycle && hang.divergences.empty() &&
         cause_of(run, hang) == Cause::kNotSeen;
}

}  // namespace traintrace
