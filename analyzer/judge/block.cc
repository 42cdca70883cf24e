#include "analyzer/judge/block.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "analyzer/isolation/stage.h"
#include "analyzer/judge/frontier.h"
#include "analyzer/judge/match_waits.h"
#include "analyzer/model/activity.h"
#include "analyzer/model/conflicts.h"
#include "analyzer/model/ending.h"
#include "analyzer/model/hangs.h"
#include "analyzer/model/messages.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/stalls.h"
#include "analyzer/model/stream_order.h"

namespace traintrace {
namespace {

// Creating the communicator: whoever has not begun to, or died while it did, is waited for.
void add_init_wait(const Run& run, size_t index, std::vector<Wait>& waits) {
  const Communicator& communicator = run.communicators[index];
  Wait wait;
  wait.kind = WaitKind::kInit;
  wait.communicator = index;
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    const RankState& state = *state_of(run, member.rank);
    const bool done = text.ready != 0 || (text.flags & format::kInitDone) != 0 ||
                      text.collectives != 0 || text.ended != 0 ||
                      (text.flags & format::kInitFailed) != 0;
    if (done || text.origin == format::kUnknownOrigin) {
      continue;
    }
    if (ended_early(run, state)) {
      wait.awaited.push_back({member.rank, true, text.created});
    } else if (blocked_in_nccl(run, state) != 0 || (text.flags & format::kNonBlocking) != 0) {
      wait.waiters.push_back(waiter_of(run, member, text.created, text.created_stack));
    }
    constexpr const char* kNames[] = {"the creation",  "ncclCommInitRank", "ncclCommInitAll",
                                      "ncclCommSplit", "ncclCommShrink",   "the creation"};
    wait.operation = kNames[std::min<size_t>(text.origin, std::size(kNames) - 1)];
  }
  for (const Rank rank : communicator.absent) {
    wait.awaited.push_back({rank, false, 0});
  }
  std::sort(wait.awaited.begin(), wait.awaited.end(),
            [](const Awaited& a, const Awaited& b) { return a.rank < b.rank; });
  if (!wait.waiters.empty() && !wait.awaited.empty()) {
    waits.push_back(std::move(wait));
  }
}

// Whoever is awaited has issued its part.
bool is_held_up(const Wait& wait) {
  return std::all_of(wait.awaited.begin(), wait.awaited.end(),
                     [](const Awaited& awaited) { return awaited.held_up; });
}

std::vector<Wait> waits_in(const Run& run) {
  std::vector<Wait> waits;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    add_init_wait(run, i, waits);
  }
  add_match_waits(run, waits);
  std::stable_sort(waits.begin(), waits.end(), [](const Wait& a, const Wait& b) {
    return std::tuple(is_held_up(a), a.communicator) < std::tuple(is_held_up(b), b.communicator);
  });
  add_conflict_waits(run, waits);
  add_message_waits(run, waits);
  return waits;
}

bool has_pending(const Run& run, Rank rank) {
  return std::any_of(
      run.communicators.begin(), run.communicators.end(), [&](const Communicator& communicator) {
        const Member* const member = member_of(communicator, rank);
        if (member == nullptr || communicator.size == 1) {
          return false;
        }
        const auto& recent = text_of(run, *member).recent;
        return std::any_of(recent.begin(), recent.end(), [&](const OperationText& operation) {
          return pending(run, *member, &operation) != nullptr;
        });
      });
}

// Somebody waits for a rank whose stream is blocked: its other streams may wait for that one.
bool is_stopped(const Wait& wait) {
  return std::any_of(wait.awaited.begin(), wait.awaited.end(),
                     [](const Awaited& awaited) { return awaited.stopped; });
}

// Nobody is missing, and yet it does not go on; or who is missing is in something else.
bool may_be_held_by_events(Run& run, const Blocked& blocked) {
  if (std::any_of(blocked.waits.begin(), blocked.waits.end(), is_stopped)) {
    return true;
  }
  run.waits.waits = blocked.waits;
  run.waits.hangs = find_hangs(run, run.waits.waits);
  const std::vector<Hang>& hangs = run.waits.hangs;
  return hangs.empty() ? !find_stalls(run, HostWait::kAtMost).empty()
                       : std::any_of(hangs.begin(), hangs.end(), [&](const Hang& hang) {
                           return hang.fate == Fate::kAlive &&
                                  std::any_of(hang.roots.begin(), hang.roots.end(),
                                              [&](Rank rank) { return has_pending(run, rank); });
                         });
}

}  // namespace

Blocked block(Run& run, const ReadEvents& read_events) {
  Blocked blocked;
  if (knows_order_only(run)) {
    run_stage("model waits", [&] {
      if (may_hang(run)) {
        blocked.frontiers = block_frontiers(run);
      }
    });
    return blocked;
  }
  run_stage("model waits", [&] { blocked.waits = waits_in(run); });
  run_stage("model waits for events", [&] {
    if (may_be_held_by_events(run, blocked) && find_stream_orders(run, read_events)) {
      blocked.waits = waits_in(run);
    }
  });
  return blocked;
}

}  // namespace traintrace
