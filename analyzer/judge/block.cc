#include "analyzer/judge/block.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "analyzer/isolation/stage.h"
#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/judge/given_up.h"
#include "analyzer/judge/match_waits.h"
#include "analyzer/model/divergence/conflicts.h"
#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/older_operations.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/model/waiting/hangs.h"
#include "analyzer/model/waiting/stalls.h"
#include "analyzer/model/waiting/stream_order.h"
#include "analyzer/model/waiting/wait_walk.h"

namespace traintrace {
namespace {

// Creating the communicator: whoever has not begun to, or died while it did, is waited for.
Wait init_wait(const Run& run, size_t index) {
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
                                      "ncclCommSplit", "ncclCommShrink",   "the creation",
                                      "ncclCommGrow"};
    wait.operation = kNames[std::min<size_t>(text.origin, std::size(kNames) - 1)];
  }
  for (const Rank rank : communicator.absent) {
    wait.awaited.push_back({rank, false, 0});
  }
  std::sort(wait.awaited.begin(), wait.awaited.end(),
            [](const Awaited& a, const Awaited& b) { return a.rank < b.rank; });
  return wait;
}

bool lacks_members(const Run& run, const Wait& wait) {
  const Communicator& communicator = run.communicators[wait.communicator];
  return wait.awaited.empty() && static_cast<int>(communicator.members.size()) < communicator.size;
}

// Ranks that wait for nobody, as far as is known.
Ranks free_ranks(const Run& run, const std::vector<Wait>& waits) {
  Ranks ranks = run.missing;
  for (const RankState& state : run.ranks) {
    insert(ranks, state.rank);
  }
  for (const Wait& wait : waits) {
    for (const Waiter& waiter : wait.waiters) {
      std::erase(ranks, waiter.rank);
    }
  }
  return ranks;
}

bool is_awaited(Rank rank, const std::vector<Wait>& waits) {
  return std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) {
    return std::any_of(wait.awaited.begin(), wait.awaited.end(),
                       [&](const Awaited& awaited) { return awaited.rank == rank; });
  });
}

bool has_not_ended(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  return state != nullptr && !exited_normally(run, *state) && !ended_early(run, *state);
}

// The source does not say who the members are that have not come.  It is taken to be the ranks that
// wait in nothing, if no others do and each of them is missing elsewhere too: who has nothing to do
// with these ranks may wait in nothing as well.
void infer_missing_members(const Run& run, const std::vector<Wait>& waits, Wait& wait) {
  const Communicator& communicator = run.communicators[wait.communicator];
  Ranks free = free_ranks(run, waits);
  std::erase_if(free, [&](Rank rank) { return member_of(communicator, rank) != nullptr; });
  const auto lacking = static_cast<size_t>(communicator.size) - communicator.members.size();
  const bool known =
      free.size() == lacking && std::all_of(free.begin(), free.end(), [&](Rank rank) {
        return has_not_ended(run, rank) && is_awaited(rank, waits);
      });
  if (known) {
    wait.inferred = true;
    for (const Rank rank : free) {
      wait.awaited.push_back({rank, false, 0});
    }
  }
}

// Whoever is awaited has issued its part.
bool is_held_up(const Wait& wait) {
  return std::all_of(wait.awaited.begin(), wait.awaited.end(),
                     [](const Awaited& awaited) { return awaited.held_up; });
}

// Whom it named waits for something else, or is what others wait for too: that it does not answer
// is no sign that another was meant.
bool is_peer_held_up(const Run& run, const Divergence& divergence, const std::vector<Wait>& waits,
                     const WaitWalk& walk) {
  const Member* const peer =
      member_at(run.communicators[divergence.communicator], divergence.own.item.operation.peer);
  if (peer == nullptr) {
    return false;
  }
  bool waiting = false;
  bool awaited = false;
  for (const Wait& wait : waits) {
    const auto is_peer = [&](const auto& one) { return one.rank == peer->rank; };
    const auto is_other = [&](const Waiter& one) {
      return !contains(divergence.deviants, one.rank);
    };
    waiting = waiting || std::any_of(wait.waiters.begin(), wait.waiters.end(), is_peer);
    awaited = awaited || (std::any_of(wait.awaited.begin(), wait.awaited.end(), is_peer) &&
                          std::any_of(wait.waiters.begin(), wait.waiters.end(), is_other));
  }
  return waiting ? !contains(walk.all_before(divergence.deviants), peer->rank) : awaited;
}

void drop_unproven_wrong_peers(Run& run, const std::vector<Wait>& waits) {
  Ranks ranks;
  for (const RankState& state : run.ranks) {
    insert(ranks, state.rank);
  }
  std::optional<WaitWalk> walk;
  std::erase_if(run.divergences, [&](const Divergence& divergence) {
    if (divergence.kind != DivergenceKind::kWrongPeer) {
      return false;
    }
    if (!walk) {
      walk.emplace(ranks, waits);
    }
    return is_peer_held_up(run, divergence, waits, *walk);
  });
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

// Its host waits for its GPU, and nothing tells for whom that waits.
bool waits_for_unknown(const Run& run, const RankState& state, const std::vector<Wait>& waits) {
  const TimeNs since = blocked_in_cuda(run, state);
  const auto is_it = [&](const Waiter& waiter) { return waiter.rank == state.rank; };
  return since != 0 && elapsed(since, known_until(run, state)) >= run.hang_after &&
         std::none_of(waits.begin(), waits.end(),
                      [&](const Wait& wait) {
                        return std::any_of(wait.waiters.begin(), wait.waiters.end(), is_it);
                      }) &&
         has_pending(run, state.rank);
}

// Nobody is missing, and yet it does not go on; or who is missing is in something else.
bool may_be_held_by_events(Run& run, const Blocked& blocked) {
  if (std::any_of(blocked.waits.begin(), blocked.waits.end(), is_stopped) ||
      std::any_of(run.ranks.begin(), run.ranks.end(), [&](const RankState& state) {
        return waits_for_unknown(run, state, blocked.waits);
      })) {
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

std::vector<Wait> waits_in(Run& run) {
  std::vector<Wait> waits;
  std::vector<Wait> lacking;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    Wait wait = init_wait(run, i);
    if (!wait.waiters.empty() && lacks_members(run, wait)) {
      lacking.push_back(std::move(wait));
    } else if (!wait.waiters.empty() && !wait.awaited.empty()) {
      waits.push_back(std::move(wait));
    }
  }
  const auto known = static_cast<std::ptrdiff_t>(waits.size());
  add_match_waits(run, waits);
  std::vector<Wait> all = waits;
  std::copy(lacking.begin(), lacking.end(), std::back_inserter(all));
  for (Wait& wait : lacking) {
    infer_missing_members(run, all, wait);
  }
  std::erase_if(lacking, [](const Wait& wait) { return wait.awaited.empty(); });
  waits.insert(waits.begin() + known, std::make_move_iterator(lacking.begin()),
               std::make_move_iterator(lacking.end()));
  drop_unproven_wrong_peers(run, waits);
  std::stable_sort(waits.begin(), waits.end(), [](const Wait& a, const Wait& b) {
    return std::tuple(is_held_up(a), a.communicator) < std::tuple(is_held_up(b), b.communicator);
  });
  add_conflict_waits(run, waits);
  add_message_waits(run, waits);
  return waits;
}

Blocked block(Run& run, const ReadEvents& read_events) {
  Blocked blocked;
  if (knows_order_only(run)) {
    run_stage("model waits", [&] {
      BlockedFrontiers frontiers = block_frontiers(run);
      if (may_hang(run)) {
        blocked.frontiers = std::move(frontiers);
      } else {
        blocked.within_limits = std::move(frontiers.waits);
      }
    });
    return blocked;
  }
  const auto find_waits = [&] {
    blocked.waits = waits_in(run);
    run.given_up = find_given_up(run, blocked.waits);
  };
  run_stage("model waits", find_waits);
  run_stage("model waits for events", [&] {
    if (may_be_held_by_events(run, blocked)) {
      const bool older = add_older_operations(run, read_events);
      if (find_stream_orders(run, read_events) || older) {
        find_waits();
      }
    }
  });
  return blocked;
}

}  // namespace traintrace
