#include "analyzer/judge/frontier/frontier_moments.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/exchanges.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool knows_limits(const Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(),
                     [](const ProcessTrace& trace) { return trace.first_limit != 0; });
}

// It is known for how long they have waited.
bool is_timed(const Run& run) {
  return run.hang_after != kHangAfter || are_dumps_dated(run);
}

// Without limits of their own: who keeps others waiting for longer than PyTorch lets a collective
// take is not at work.
bool takes_too_long(const Run& run, const Hang& hang) {
  return is_timed(run) &&
         (knows_limits(run) || elapsed(kWorkingPatience, hang.waited) >= -kLimitRounded);
}

// All wait for the first rank, as they do while it writes a checkpoint or evaluates: whether that
// takes too long is not known.  Others that are not there either may do so with it; of those
// without a dump that is not known.
bool may_be_at_work(const Run& run, const WaitGraph& graph, const Hang& hang) {
  const Wait& wait = graph.waits[hang.wait];
  return contains(hang.roots, Rank{0}) && hang.fate != Fate::kCycle &&
         (hang.fate != Fate::kUntraced || hang.roots.size() == 1) &&
         wait.kind == WaitKind::kCollective &&
         run.communicators[wait.communicator].size == run.world_size && !takes_too_long(run, hang);
}

// No time mends it.  Of dumps that were written one after the other, what a rank had not issued
// when it wrote its own it may have issued since: a cycle is one only if all of it is issued.
bool is_lasting(const WaitGraph& graph, const Hang& hang) {
  return (hang.fate == Fate::kCycle && is_all_issued(graph, hang.roots)) ||
         hang.fate == Fate::kUntraced || !hang.divergences.empty();
}

// Who is in any of it.
Ranks ranks_in(const WaitGraph& graph) {
  Ranks ranks;
  const auto add = [&](const Ranks& more) {
    std::for_each(more.begin(), more.end(), [&](Rank rank) { insert(ranks, rank); });
  };
  for (const Hang& hang : graph.hangs) {
    add(hang.roots);
    add(hang.victims);
  }
  for (const FrontierStall& stall : graph.stalls) {
    for (const StalledRank& rank : stall.stall.ranks) {
      insert(ranks, rank.rank);
    }
    add(stall.stall.finished);
    add(stall.victims);
  }
  return ranks;
}

// The whole job stands still for the sake of a few.
bool stands_still(const Run& run, const BlockedFrontiers& blocked, const WaitGraph& graph) {
  const Ranks still = ranks_in(graph);
  return std::all_of(graph.hangs.begin(), graph.hangs.end(),
                     [&](const Hang& hang) {
                       return is_lasting(graph, hang) || hang.fate == Fate::kCycle ||
                              hang.roots.size() < hang.victims.size();
                     }) &&
         std::all_of(run.ranks.begin(), run.ranks.end(), [&](const RankState& state) {
           const Node& node = blocked.nodes.at(state.rank);
           return contains(still, state.rank) || (node.unit == nullptr && !node.open);
         });
}

// Its peers are through with what the rank is in, and nobody waits for more of it: they may have
// written their dumps a moment later.
bool is_awaited_by_nobody(const FrontierStall& stall) {
  return stall.stall.kind == StallKind::kBehind && stall.victims.empty();
}

// Those that wait there wait for one that may be at work, whether or not the one without a dump has
// come.
bool is_in_moment(const WaitGraph& graph, const Hang& hang) {
  const Wait& wait = graph.waits[hang.wait];
  return hang.fate == Fate::kUntraced &&
         std::any_of(graph.within_limits.begin(), graph.within_limits.end(),
                     [&](const Wait& moment) {
                       return moment.kind == wait.kind && moment.sequence == wait.sequence &&
                              moment.communicator == wait.communicator;
                     });
}

// What was recorded later tells that all of it has lasted, without a look at when dumps were
// written.
bool has_lasted(const Run& run, const WaitGraph& graph) {
  TimeNs last = 0;
  for (const ProcessTrace& trace : run.processes) {
    for (const CommunicatorText& text : trace.communicators) {
      last = std::max(last, text.last);
      for (const OperationText& operation : text.recent) {
        last = std::max(last, operation.completed);
      }
    }
  }
  const auto is_long = [&](TimeNs since) {
    return since != 0 && elapsed(since, last) >= run.hang_after;
  };
  return std::all_of(
             graph.hangs.begin(), graph.hangs.end(),
             [&](const Hang& hang) { return is_long(graph.waits[hang.wait].details.enter); }) &&
         std::all_of(graph.stalls.begin(), graph.stalls.end(),
                     [&](const FrontierStall& stall) { return is_long(stall.stall.since); });
}

template <typename Holds>
void leave_out(WaitGraph& graph, const Holds& holds) {
  for (const Hang& hang : graph.hangs) {
    if (holds(hang)) {
      graph.within_limits.push_back(graph.waits[hang.wait]);
    }
  }
  std::erase_if(graph.hangs, holds);
}

}  // namespace

bool is_all_issued(const WaitGraph& graph, const Ranks& cycle) {
  return std::all_of(graph.waits.begin(), graph.waits.end(), [&](const Wait& wait) {
    return std::none_of(wait.waiters.begin(), wait.waiters.end(),
                        [&](const Waiter& waiter) { return contains(cycle, waiter.rank); }) ||
           std::all_of(wait.awaited.begin(), wait.awaited.end(), [&](const Awaited& awaited) {
             return awaited.entered || !contains(cycle, awaited.rank);
           });
  });
}

// Where nothing says for how long anybody has waited, a host that does something else, or a GPU
// that works, is a hang only if the whole job stands still for the sake of a few, with one root:
// a dump is mostly written because of that, if it is known after how long.
void leave_out_moments(const Run& run, const BlockedFrontiers& blocked, WaitGraph& graph) {
  // First of all: its rank does not stand still then.
  if (!is_timed(run) && std::erase_if(graph.stalls, is_awaited_by_nobody) != 0) {
    graph.undated = true;
  }
  const bool still = stands_still(run, blocked, graph);
  leave_out(graph, [&](const Hang& hang) { return may_be_at_work(run, graph, hang); });
  std::erase_if(graph.hangs, [&](const Hang& hang) { return is_in_moment(graph, hang); });
  const auto hosts = std::count_if(graph.hangs.begin(), graph.hangs.end(),
                                   [&](const Hang& hang) { return !is_lasting(graph, hang); });
  const size_t found = static_cast<size_t>(hosts) + graph.stalls.size();
  if (is_timed(run) || found == 0) {
    return;
  }
  if (still && found == 1 && graph.within_limits.empty() &&
      (knows_limits(run) || has_lasted(run, graph))) {
    for (Hang& hang : graph.hangs) {
      hang.assumed = !is_lasting(graph, hang);
    }
    return;
  }
  leave_out(graph, [&](const Hang& hang) { return !is_lasting(graph, hang); });
  std::erase_if(graph.stalls, [&](const FrontierStall& stall) {
    return !uneven_exchange(run, stall.stall);  // which no time mends
  });
  graph.undated = true;
}

}  // namespace traintrace
