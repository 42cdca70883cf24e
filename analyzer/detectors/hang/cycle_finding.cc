#include "analyzer/detectors/hang/cycle_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/cycle_blame.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/detectors/hang/tense.h"
#include "analyzer/model/communicators.h"
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
  blame_in_cycle(run, cycle, finding);
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
