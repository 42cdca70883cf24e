#include "analyzer/match/fresh_pairs.h"

#include <algorithm>

#include "analyzer/judge/frontier/standing.h"
#include "analyzer/match/roles.h"
#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/sequences.h"
#include "analyzer/model/waiting/cycles.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool is_message(const Wait& wait) {
  return wait.kind == WaitKind::kSend || wait.kind == WaitKind::kReceive;
}

bool awaits(const Wait& wait, Rank rank) {
  return std::any_of(wait.awaited.begin(), wait.awaited.end(),
                     [&](const Awaited& awaited) { return awaited.rank == rank; });
}

bool is_answered_by_all(const Wait& wait, const Ranks& cycle) {
  return std::all_of(wait.awaited.begin(), wait.awaited.end(), [&](const Awaited& awaited) {
    return awaited.entered || !contains(cycle, awaited.rank);
  });
}

bool is_of_fresh_pair(const Run& run, const Wait& wait) {
  if (!is_message(wait) || wait.waiters.size() != 1) {
    return false;
  }
  const Member& member =
      *member_of(run.communicators[wait.communicator], wait.waiters.front().rank);
  return is_fresh_pair(run.processes[member.process], text_of(run, member));
}

// In a greater group both have exchanged such messages with others again and again, and this is the
// only one between the two, as far as is kept.
bool is_first_between(const Run& run, const Wait& wait) {
  if (!is_message(wait) || wait.waiters.size() != 1) {
    return false;
  }
  const Communicator& communicator = run.communicators[wait.communicator];
  const Member& own = *member_of(communicator, wait.waiters.front().rank);
  const Member* const peer = member_at(communicator, wait.details.peer);
  if (communicator.size == 2 || peer == nullptr || own.local_rank < 0) {
    return false;
  }
  const auto alike = [&](const OperationText& operation, bool receive) {
    return !operation.collective && operation.receive == receive &&
           size_key(operation) == size_key(wait.details);
  };
  size_t done = 0;
  for (const OperationText& operation : text_of(run, own).recent) {
    if (!alike(operation, wait.details.receive) || operation.index == wait.details.index) {
      continue;
    }
    if (operation.peer == wait.details.peer) {
      return false;
    }
    done += is_unfinished(run.processes[own.process], operation) ? 0 : 1;
  }
  size_t others = 0;
  for (const OperationText& operation : text_of(run, *peer).recent) {
    if (alike(operation, !wait.details.receive)) {
      if (operation.peer == own.local_rank) {
        return false;
      }
      ++others;
    }
  }
  return done >= kHabitTimes && others >= kHabitTimes;
}

bool is_new(const Run& run, const Wait& wait) {
  return is_of_fresh_pair(run, wait) || is_first_between(run, wait);
}

// The only one that is not answered, if it is of a fresh pair.
std::optional<size_t> lone_unanswered(const Run& run, const WaitGraph& graph, const Hang& cycle) {
  std::optional<size_t> found;
  for (size_t i = 0; i < graph.waits.size(); ++i) {
    const Wait& wait = graph.waits[i];
    if (!is_part(wait, cycle.roots) || is_answered_by_all(wait, cycle.roots)) {
      continue;
    }
    if (found || !is_new(run, wait)) {
      return std::nullopt;
    }
    found = i;
  }
  return found;
}

// Where another waits for such a message of that rank; null: nobody does, or several do.
const Wait* meant_by(const WaitGraph& graph, const Wait& wrong) {
  const Wait* found = nullptr;
  for (const Wait& wait : graph.waits) {
    const bool other_side = is_message(wait) && wait.kind != wrong.kind &&
                            wait.waiters.size() == 1 && awaits(wait, wrong.waiters.front().rank) &&
                            size_key(wait.details) == size_key(wrong.details);
    if (other_side && found != nullptr) {
      return nullptr;
    }
    found = other_side ? &wait : found;
  }
  return found;
}

SideCall side_of(const Run& run, const Wait& wait) {
  const Member& member =
      *member_of(run.communicators[wait.communicator], wait.waiters.front().rank);
  return call_of(run, member, wait.details);
}

Divergence named_other_peer(const Run& run, const Wait& wrong, const Wait& meant) {
  Divergence one;
  one.kind = DivergenceKind::kWrongPeer;
  one.communicator = meant.communicator;
  one.used = wrong.communicator;
  one.own = side_of(run, wrong);
  one.expected = side_of(run, meant);
  one.sequence = one.sequence_last = one.met = meant.sequence;
  one.deviants = {one.own.rank};
  one.parts = {one.deviants};
  one.others = {one.expected.rank};
  one.complete = run.missing.empty();
  one.tie = true;
  return one;
}

// What is not answered is known already.
void explain_unanswered(const Run& run, WaitGraph& graph, Hang& hang) {
  const Wait& wrong = graph.waits[hang.wait];
  const Wait* const meant = is_new(run, wrong) ? meant_by(graph, wrong) : nullptr;
  if (meant != nullptr) {
    hang.divergences = {run.divergences.size() + graph.divergences.size()};
    graph.divergences.push_back(named_other_peer(run, wrong, *meant));
  }
}

}  // namespace

void find_fresh_pairs(const Run& run, WaitGraph& graph) {
  for (Hang& hang : graph.hangs) {
    if (hang.by_one_of_two && hang.divergences.empty()) {
      explain_unanswered(run, graph, hang);
      continue;
    }
    if (hang.fate != Fate::kCycle || !hang.divergences.empty() || !hang.culprits.empty()) {
      continue;
    }
    const auto wrong = lone_unanswered(run, graph, hang);
    const Wait* const meant = wrong ? meant_by(graph, graph.waits[*wrong]) : nullptr;
    if (meant == nullptr) {
      continue;
    }
    hang.wait = *wrong;
    hang.fate = Fate::kAlive;
    hang.roots = {graph.waits[*wrong].waiters.front().rank};
    hang.entered = true;
    hang.divergences = {run.divergences.size() + graph.divergences.size()};
    graph.divergences.push_back(named_other_peer(run, graph.waits[*wrong], *meant));
  }
}

}  // namespace traintrace
