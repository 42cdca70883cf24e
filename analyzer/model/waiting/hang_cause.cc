#include "analyzer/model/waiting/hang_cause.h"

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/memory/allocator/retry.h"
#include "analyzer/model/divergence/creations.h"
#include "analyzer/model/divergence/registrations.h"
#include "analyzer/model/divergence/splits.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/process/open_calls.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/cycles.h"
#include "analyzer/model/waiting/launch_races.h"
#include "analyzer/model/waiting/misuse.h"
#include "analyzer/model/waiting/stalls.h"
#include "analyzer/model/waiting/stream_order.h"

namespace traintrace {
namespace {

enum class Lines : uint8_t { kSame, kOther };

constexpr int kNoMemory = 2;  // cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY

bool is_of(const RankState& state, const CallRecord& event) {
  return state.device < 0 || event.device == state.device;
}

// What the failure did not stop: work went on, or the memory was found after all.
bool overcomes(const ProcessTrace& trace, const CallRecord& event, uint64_t bytes) {
  const CallSchema* schema = schema_of(trace, event.call);
  if (schema == nullptr || !event.returned || event.result != 0) {
    return false;
  }
  return schema->kind == "launch" || schema->kind == "graph-launch" ||
         schema->kind == "collective" || schema->kind == "send-recv" ||
         (schema->kind == "alloc" && value_of(trace, event, "bytes").value_or(0) >= bytes);
}

TimeNs last_there(const Run& run, const Hang& hang, Rank rank) {
  const Wait& wait = run.waits.waits[hang.wait];
  const auto found = std::find_if(wait.awaited.begin(), wait.awaited.end(),
                                  [&](const Awaited& awaited) { return awaited.rank == rank; });
  return found == wait.awaited.end() ? 0 : found->moved;
}

bool all_out_of_memory(const Run& run, const Hang& hang) {
  return hang.fate != Fate::kCycle && hang.fate != Fate::kUntraced && !hang.roots.empty() &&
         std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
           const CallRecord* failed = out_of_memory(run, rank);
           return failed != nullptr && failed->enter >= last_there(run, hang, rank);
         });
}

bool all_unlaunched(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  return hang.fate == Fate::kAlive && wait.kind == WaitKind::kCollective &&
         std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
           const Member* member = member_of(run.communicators[wait.communicator], rank);
           return member != nullptr && unlaunched_capture(run, *member) != nullptr;
         });
}

bool held_up_by_gpu(const Run& run, const Hang& hang) {
  if (!hang.blocked) {
    return false;
  }
  const std::vector<Stall> stalls = find_stalls(run);
  return std::any_of(stalls.begin(), stalls.end(),
                     [&](const Stall& stall) { return holds_up(run, stalls, stall, hang); });
}

// A thread that is to issue the parts of several ranks waits for the device on behalf of one.
bool holds_up_its_own_rank(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  return hang.fate == Fate::kAlive &&
         std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank r) {
           const RankState& state = *state_of(run, r);
           const auto open = open_cuda_call(run, state);
           return state.device >= 0 && open && open->implicit &&
                  std::any_of(wait.waiters.begin(), wait.waiters.end(), [&](const Waiter& waiter) {
                    return waiter.process == state.process;
                  });
         });
}

// On one of the process's streams `then` begins when `first` is over.
bool comes_after(const Run& run, size_t process, const OperationText& first,
                 const OperationText& then) {
  return first.stream == then.stream
             ? first.stream != 0 && first.position != 0 && first.position < then.position
             : is_told_behind(run, process, {first.stream, first.enter}, then);
}

// Both stacks are known, and their lines are `alike`: the same, or not.
bool are_lines(const Run& run, Rank a, uint32_t stack, Rank b, uint32_t other, Lines alike) {
  const auto first = user_place(trace_of(run, *state_of(run, a)), a, stack);
  const auto second = user_place(trace_of(run, *state_of(run, b)), b, other);
  return first && second &&
         (first->file == second->file && first->line == second->line) == (alike == Lines::kSame);
}

// It waits in the same call: that one is what all came to, and does not tell them apart.
bool is_inside_too(const Run& run, Rank root, const OpenCall& open, Rank waiter) {
  const auto other = open_cuda_call(run, *state_of(run, waiter));
  return other && other->call == open.call &&
         are_lines(run, root, open.stack, waiter, other->stack, Lines::kSame);
}

// A waiter's part of that operation comes after what it waits in.
bool puts_off(const Run& run, const Wait& wait, const Waiter& waiter,
              const Communicator& communicator, Rank root, const OperationText& own) {
  const Member* const there = member_of(run.communicators[wait.communicator], waiter.rank);
  const Member* const member = member_of(communicator, waiter.rank);
  if (there == nullptr || member == nullptr) {
    return false;
  }
  const OperationText* const first = collective_at(text_of(run, *there), wait.sequence);
  const OperationText* const then =
      pending(run, *member, collective_at(text_of(run, *member), own.sequence));
  return first != nullptr && then != nullptr &&
         !are_lines(run, root, own.stack, waiter.rank, then->stack, Lines::kOther) &&
         comes_after(run, waiter.process, *first, *then);
}

bool all_wait_for_held(const Run& run, const Hang& hang) {
  return hang.fate == Fate::kAlive && !hang.roots.empty() &&
         run.waits.waits[hang.wait].kind == WaitKind::kCollective &&
         std::all_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return held_by_others(run, hang, rank).has_value(); });
}

uint32_t stream_of(const OperationText* operation) {
  return operation == nullptr ? 0 : operation->stream;
}

// Wherever the others wait for it, it could not come even if its host went on: that would lie on
// the stream behind something that it waits in.
bool waits_before_on_streams(const Run& run, const Hang& cycle, Rank rank) {
  std::set<uint32_t> waiting;
  std::set<uint32_t> awaited;  // where its last operation there was
  for (const Wait& wait : run.waits.waits) {
    const Member* member = member_of(run.communicators[wait.communicator], rank);
    if (member == nullptr || !is_part(wait, cycle.roots)) {
      continue;
    }
    const CommunicatorText& text = text_of(run, *member);
    const bool waits = std::any_of(wait.waiters.begin(), wait.waiters.end(),
                                   [&](const Waiter& own) { return own.rank == rank; });
    if (!waits) {
      awaited.insert(stream_of(text.recent.empty() ? nullptr : &text.recent.back()));
    } else if (wait.kind == WaitKind::kCollective) {
      waiting.insert(stream_of(collective_at(text, wait.sequence)));
    } else {
      waiting.insert(wait.details.stream);
    }
  }
  waiting.erase(0);
  return std::any_of(awaited.begin(), awaited.end(),
                     [&](uint32_t stream) { return waiting.contains(stream); });
}

// Wherever the others wait for it, it has put its part on a stream: its host has done what it can.
bool has_called_all(const Run& run, const Hang& cycle, Rank rank) {
  return std::all_of(run.waits.waits.begin(), run.waits.waits.end(), [&](const Wait& wait) {
    return !is_part(wait, cycle.roots) ||
           std::all_of(wait.awaited.begin(), wait.awaited.end(), [&](const Awaited& awaited) {
             return awaited.rank != rank || awaited.held_up;
           });
  });
}

Cause cause_in_communicator(const Run& run, const Hang& hang) {
  return is_creation_mismatch(run, hang)       ? Cause::kCreation
         : is_split_mismatch(run, hang)        ? Cause::kCreation
         : is_misuse(run, hang)                ? Cause::kMisuse
         : is_launch_race(run, hang)           ? Cause::kMisuse
         : is_destroyed(run, hang)             ? Cause::kDestroyed
         : is_async_error(run, hang)           ? Cause::kAsyncError
         : is_group_unclosed(run, hang)        ? Cause::kOpenGroup
         : is_registration_mismatch(run, hang) ? Cause::kRegistration
                                               : Cause::kNotSeen;
}

}  // namespace

const CallRecord* out_of_memory(const Run& run, Rank rank) {
  const RankState* state = state_of(run, rank);
  if (state == nullptr) {
    return nullptr;
  }
  const ProcessTrace& trace = trace_of(run, *state);
  if (allocator_is_retrying(trace)) {
    return nullptr;
  }
  const CallRecord* failed = nullptr;
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    if (schema == nullptr || !is_of(*state, event)) {
      continue;
    }
    if (event.returned && event.result == kNoMemory && schema->library != "nccl" &&
        schema->kind == "alloc") {
      failed = failed == nullptr ? &event : failed;  // it may try again
    } else if (failed != nullptr && event.enter >= failed->enter &&
               overcomes(trace, event, value_of(trace, *failed, "bytes").value_or(0))) {
      failed = nullptr;
    }
  }
  return failed;
}

const OperationText* unlaunched_capture(const Run& run, const Member& member) {
  const CommunicatorText& text = text_of(run, member);
  if (text.recent.empty()) {
    return nullptr;
  }
  const OperationText& last = text.recent.back();
  return last.collective && (last.flags & format::kCaptured) != 0 ? &last : nullptr;
}

Ranks inside_implicit_sync(const Run& run, const Hang& hang) {
  Ranks found;
  for (const Rank rank : hang.roots) {
    const auto open = open_cuda_call(run, *state_of(run, rank));
    if (open && open->implicit) {
      found.push_back(rank);
    }
  }
  if (2 * found.size() > hang.roots.size()) {
    return {};
  }
  // Where it is known whose calls parted from the others', those that wait for it are not why.
  std::erase_if(found, [&](Rank rank) {
    return (!hang.culprits.empty() && !contains(hang.culprits, rank)) ||
           waits_before_on_streams(run, hang, rank) || has_called_all(run, hang, rank);
  });
  return found;
}

std::optional<HeldOperation> held_by_others(const Run& run, const Hang& hang, Rank root) {
  const RankState* const state = state_of(run, root);
  const auto open = state == nullptr ? std::nullopt : open_cuda_call(run, *state);
  if (!open || !open->implicit) {
    return std::nullopt;
  }
  const Wait& wait = run.waits.waits[hang.wait];
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Communicator& communicator = run.communicators[i];
    const Member* const member = member_of(communicator, root);
    if (member == nullptr || communicator.size == 1) {
      continue;
    }
    for (const OperationText& operation : text_of(run, *member).recent) {
      if (operation.collective && operation.enter < open->since &&
          pending(run, *member, &operation) != nullptr &&
          std::any_of(wait.waiters.begin(), wait.waiters.end(), [&](const Waiter& waiter) {
            return !is_inside_too(run, root, *open, waiter.rank) &&
                   puts_off(run, wait, waiter, communicator, root, operation);
          })) {
        return HeldOperation{i, &operation};
      }
    }
  }
  return std::nullopt;
}

bool issues_from_threads(const Run& run, const Hang& hang, Rank rank) {
  const ProcessTrace& trace = trace_of(run, *state_of(run, rank));
  std::map<size_t, std::set<uint32_t>> threads;  // by communicator, of the operations waited in
  for (const Wait& wait : run.waits.waits) {
    const Communicator& communicator = run.communicators[wait.communicator];
    const Member* member = member_of(communicator, rank);
    if (wait.kind != WaitKind::kCollective || member == nullptr || !is_part(wait, hang.roots)) {
      continue;
    }
    for (const CallRecord& event : trace.events) {
      const CallSchema* schema = schema_of(trace, event.call);
      if (schema != nullptr && schema->kind == "collective" && is_of(*state_of(run, rank), event) &&
          value_of(trace, event, "comm") == member->element + 1) {
        threads[wait.communicator].insert(event.thread);
      }
    }
  }
  // Each communicator has a thread of its own.
  std::set<uint32_t> all;
  size_t sum = 0;
  for (const auto& [communicator, own] : threads) {
    all.insert(own.begin(), own.end());
    sum += own.size();
  }
  return threads.size() > 1 && all.size() > 1 && sum == all.size();
}

Cause cause_of(const Run& run, const Hang& hang) {
  if (!hang.divergences.empty()) {
    return Cause::kNotSeen;
  }
  if (all_out_of_memory(run, hang)) {
    return Cause::kOutOfMemory;
  }
  if (const Cause misused = cause_in_communicator(run, hang); misused != Cause::kNotSeen) {
    return misused;
  }
  if (hang.fate == Fate::kCycle) {
    return !inside_implicit_sync(run, hang).empty() ? Cause::kImplicitSync
           : std::any_of(hang.roots.begin(), hang.roots.end(),
                         [&](Rank rank) { return issues_from_threads(run, hang, rank); })
               ? Cause::kThreads
               : Cause::kNotSeen;
  }
  if (holds_up_its_own_rank(run, hang) || all_wait_for_held(run, hang)) {
    return Cause::kImplicitSync;
  }
  return held_up_by_gpu(run, hang)   ? Cause::kStall
         : all_unlaunched(run, hang) ? Cause::kUnlaunched
                                     : Cause::kNotSeen;
}

}  // namespace traintrace
