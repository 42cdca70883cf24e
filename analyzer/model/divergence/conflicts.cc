#include "analyzer/model/divergence/conflicts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/open_calls.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/cycles.h"

namespace traintrace {
namespace {

bool meets(const Divergence& divergence, size_t communicator) {
  return divergence.communicator == communicator && is_conflict(divergence);
}

bool waits_in(const Run& run, const Member& member, uint64_t sequence) {
  const OperationText* operation = collective_at(text_of(run, member), sequence);
  return operation != nullptr && (operation->flags & format::kEmpty) == 0 &&
         is_in(run, member, sequence) && !has_left(run, member);
}

// `waiting` are in collective `sequence`, in which `awaited` issued something else.
Wait conflict(const Run& run, size_t index, uint64_t sequence, const Ranks& waiting,
              const Ranks& awaited) {
  Wait wait;
  wait.communicator = index;
  wait.sequence = sequence;
  for (const Member& member : run.communicators[index].members) {
    const CommunicatorText& text = text_of(run, member);
    const OperationText* operation = collective_at(text, sequence);
    if (contains(awaited, member.rank)) {
      wait.awaited.push_back({member.rank, false, operation == nullptr ? 0 : operation->enter});
    } else if (contains(waiting, member.rank) && waits_in(run, member, sequence)) {
      wait.waiters.push_back(waiter_in(run, member, sequence));
      if (wait.details.enter == 0) {
        wait.details = *operation;
        wait.operation = call_name(run.processes[member.process], operation->call);
      }
    } else if (sequence_reached(run.processes[member.process], text) < sequence) {
      wait.awaited.push_back({member.rank, false, text.last});
    }
  }
  return wait;
}

bool is_shift(const Divergence& divergence) {
  return divergence.kind == DivergenceKind::kSkipped || divergence.kind == DivergenceKind::kExtra ||
         divergence.kind == DivergenceKind::kEmpty || divergence.kind == DivergenceKind::kUnknown;
}

bool overlap(const Ranks& a, const Ranks& b) {
  return std::any_of(a.begin(), a.end(), [&](Rank rank) { return contains(b, rank); });
}

// The deviants have issued nothing behind the place where they diverged.
bool stopped_there(const Run& run, const Divergence& divergence) {
  const Communicator& communicator = run.communicators[divergence.communicator];
  return std::all_of(divergence.deviants.begin(), divergence.deviants.end(), [&](Rank rank) {
    const Member* member = member_of(communicator, rank);
    return member != nullptr &&
           sequence_reached(run.processes[member->process], text_of(run, *member)) <=
               divergence.sequence +
                   (divergence.kind == DivergenceKind::kSwapped ? divergence.length : 0);
  });
}

// It starts with the peer that has not answered the call in question.
bool is_unanswered_there(const Divergence& divergence, const Wait& wait) {
  return divergence.kind == DivergenceKind::kWrongPeer &&
         wait.communicator == divergence.communicator && wait.kind != WaitKind::kCollective &&
         std::any_of(wait.waiters.begin(), wait.waiters.end(), [&](const Waiter& waiter) {
           return contains(divergence.deviants, waiter.rank);
         });
}

// One side of it is stuck, and is what the others wait for.
bool messages_explain(const Run& run, const Divergence& divergence, const Wait& wait,
                      const Hang& hang) {
  const bool concerned = overlap(hang.roots, divergence.deviants) ||
                         (divergence.tie && (overlap(hang.roots, divergence.others) ||
                                             is_unanswered_there(divergence, wait)));
  return concerned && divergence.kind != DivergenceKind::kHarmlessMessageType &&
         (divergence.messages.empty() ||
          std::any_of(divergence.messages.begin(), divergence.messages.end(),
                      [&](const Message& message) { return is_pending(run, message); }));
}

bool is_harmless_kind(DivergenceKind kind) {
  return kind == DivergenceKind::kHarmlessType || kind == DivergenceKind::kHarmlessMessageType;
}

// NCCL had noticed: it told of an error, or refused the next call there.
bool was_refused(const CommunicatorText& text, TimeNs since) {
  return (text.flags & format::kAsyncError) != 0 ||
         (!text.recent.empty() && (text.recent.back().flags & format::kFailed) != 0 &&
          text.recent.back().enter >= since);
}

// Whoever is missing has left, and for that.
bool drove_out(const Run& run, const Divergence& divergence, const Hang& hang) {
  const bool left =
      hang.fate == Fate::kExited || hang.fate == Fate::kPerhapsExited || may_have_died(hang.fate);
  const TimeNs met =
      std::min(divergence.own.item.operation.enter, divergence.expected.item.operation.enter);
  return left && !is_harmless_kind(divergence.kind) &&
         std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
           const Member* member = member_of(run.communicators[divergence.communicator], rank);
           return member != nullptr && was_refused(text_of(run, *member), met);
         });
}

// Its host is inside a call that waits, or polls, and its last operation there is not over.
bool is_held_in(const Run& run, const Member& member) {
  const ProcessTrace& trace = run.processes[member.process];
  const RankState& state = *state_of(run, member.rank);
  return (blocked_in_nccl(run, state) != 0 || blocked_in_cuda(run, state) != 0 ||
          is_polling(trace, state.last_seen)) &&
         waits_in(run, member, sequence_reached(trace, text_of(run, member)));
}

// Whoever is missing, be it elsewhere, has not come out of what it issued there.
bool holds_there(const Run& run, const Divergence& divergence, const Hang& hang) {
  return hang.fate == Fate::kAlive && !divergence.by_site && !is_harmless_kind(divergence.kind) &&
         !is_of_messages(divergence.kind) &&
         std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
           const Member* member = member_of(run.communicators[divergence.communicator], rank);
           const bool is_side = contains(divergence.deviants, rank) ||
                                (divergence.tie && contains(divergence.others, rank));
           return member != nullptr && is_side && is_held_in(run, *member);
         });
}

// One of the waits that it consists of is for who diverged, there or behind that.
bool closes_cycle(const std::vector<Wait>& waits, const Divergence& divergence, const Hang& hang) {
  const bool concerned = overlap(hang.roots, divergence.deviants) ||
                         (divergence.tie && overlap(hang.roots, divergence.others));
  return hang.fate == Fate::kCycle && concerned && !is_harmless_kind(divergence.kind) &&
         !is_of_messages(divergence.kind) &&
         std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) {
           return wait.kind == WaitKind::kCollective &&
                  wait.communicator == divergence.communicator &&
                  wait.sequence >= divergence.sequence && is_part(wait, hang.roots);
         });
}

bool explains(const Run& run, const Divergence& divergence, const std::vector<Wait>& waits,
              const Hang& hang) {
  const Wait& wait = waits[hang.wait];
  if (drove_out(run, divergence, hang) || holds_there(run, divergence, hang) ||
      closes_cycle(waits, divergence, hang)) {
    return true;
  }
  if (is_of_messages(divergence.kind)) {
    return wait.kind != WaitKind::kInit && messages_explain(run, divergence, wait, hang);
  }
  const bool elsewhere =
      divergence.kind == DivergenceKind::kOtherCommunicator && wait.communicator == divergence.used;
  if (wait.kind == WaitKind::kInit ||
      (wait.communicator != divergence.communicator && !elsewhere) ||
      divergence.kind == DivergenceKind::kHarmlessType) {
    return false;
  }
  const bool of_peers = wait.kind != WaitKind::kCollective;
  if (of_peers ? divergence.kind != DivergenceKind::kPeer
               : !elsewhere && wait.sequence < divergence.sequence) {
    return false;
  }
  Ranks waiters;
  for (const Waiter& waiter : wait.waiters) {
    waiters.push_back(waiter.rank);
  }
  const bool concerned = overlap(hang.roots, divergence.deviants) ||
                         (is_shift(divergence) && overlap(waiters, divergence.deviants)) ||
                         (divergence.tie && overlap(hang.roots, divergence.others));
  const bool there =
      is_shift(divergence) || wait.sequence == divergence.met || stopped_there(run, divergence);
  return concerned && there;
}

using Places = std::vector<size_t>;  // in Run::communicators

void take_out(const Run& run, const Ranks& deviants, const Places& communicators,
              std::vector<Wait>& waits) {
  for (Wait& wait : waits) {
    if (wait.kind == WaitKind::kInit || std::find(communicators.begin(), communicators.end(),
                                                  wait.communicator) == communicators.end()) {
      continue;
    }
    std::erase_if(wait.waiters,
                  [&](const Waiter& waiter) { return contains(deviants, waiter.rank); });
    std::erase_if(wait.awaited,
                  [&](const Awaited& awaited) { return state_of(run, awaited.rank) == nullptr; });
  }
}

void add_conflict_waits_of(const Run& run, size_t communicator, std::vector<Wait>& waits) {
  const auto first =
      std::find_if(run.divergences.begin(), run.divergences.end(),
                   [&](const Divergence& divergence) { return meets(divergence, communicator); });
  if (first == run.divergences.end()) {
    return;
  }
  Ranks deviants;
  Places used = {communicator};
  for (const Divergence& other : run.divergences) {
    if (meets(other, communicator) && other.met == first->met) {
      for (const Rank rank : other.deviants) {
        insert(deviants, rank);
      }
      if (other.kind == DivergenceKind::kOtherCommunicator) {
        used.push_back(other.used);
      }
    }
  }
  std::vector<Wait> found = {conflict(run, communicator, first->met, first->others, deviants)};
  // On a tie they wait for each other.
  if (first->tie) {
    found.push_back(conflict(run, communicator, first->met, deviants, first->others));
  }
  std::erase_if(found,
                [](const Wait& wait) { return wait.waiters.empty() || wait.awaited.empty(); });
  if (!found.empty()) {
    for (const Rank rank : first->tie ? first->others : Ranks{}) {
      insert(deviants, rank);
    }
    take_out(run, deviants, used, waits);
    std::move(found.begin(), found.end(), std::back_inserter(waits));
  }
}

}  // namespace

bool is_conflict(const Divergence& divergence) {
  return divergence.exact && !divergence.by_site &&
         divergence.kind != DivergenceKind::kHarmlessType && !is_of_messages(divergence.kind);
}

void add_conflict_waits(const Run& run, std::vector<Wait>& waits) {
  for (size_t i = 0; i < run.communicators.size() && !run.divergences.empty(); ++i) {
    add_conflict_waits_of(run, i, waits);
  }
}

std::vector<size_t> reasons_for(const Run& run, const std::vector<Wait>& waits, const Hang& hang) {
  std::vector<size_t> reasons;
  for (size_t i = 0; i < run.divergences.size(); ++i) {
    if (explains(run, run.divergences[i], waits, hang)) {
      reasons.push_back(i);
    }
  }
  return reasons;
}

}  // namespace traintrace
