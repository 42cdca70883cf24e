#include "analyzer/model/waiting/stalls.h"

#include <algorithm>
#include <set>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/open_calls.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/model/waiting/host_functions.h"
#include "analyzer/model/waiting/message_stalls.h"
#include "analyzer/model/waiting/pace.h"
#include "analyzer/model/waiting/stream_order.h"
#include "analyzer/model/waiting/wait_search.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// The first collective that is not known to be finished; 0: all are.
uint64_t first_unfinished(const Run& run, const Member& member) {
  constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
  for (const OperationText& operation : text_of(run, member).recent) {
    if (operation.collective && (operation.flags & kNot) == 0 && operation.sequence != 0 &&
        !finished(run.processes[member.process], operation)) {
      return operation.sequence;
    }
  }
  return 0;
}

// The first collective that a function of the job's, which has not returned, holds up; 0: none.
uint64_t first_behind_function(const Run& run, const Member& member) {
  const std::vector<OperationText>& recent = text_of(run, member).recent;
  const auto found = std::find_if(recent.begin(), recent.end(), [&](const OperationText& one) {
    return one.collective && pending(run, member, &one) != nullptr &&
           function_before(run, member.process, one) != nullptr;
  });
  return found == recent.end() ? 0 : found->sequence;
}

// Those that are the first that somebody has not finished, or that is known not to be, and that
// everybody has entered.
std::set<uint64_t> stalled_sequences(const Run& run, const Communicator& communicator) {
  std::set<uint64_t> found;
  uint64_t reached = ~uint64_t{0};
  for (const Member& member : communicator.members) {
    const RankState& state = *state_of(run, member.rank);
    if (exited_normally(run, state) || has_left(run, member) ||
        (died_waiting(run, member) && !was_stuck_at_end(run, state))) {
      return {};
    }
    for (const uint64_t own : {first_unfinished(run, member), first_behind_function(run, member)}) {
      if (own != 0) {
        found.insert(own);
      }
    }
    reached =
        std::min(reached, sequence_reached(run.processes[member.process], text_of(run, member)));
  }
  found.erase(found.upper_bound(reached), found.end());
  return found;
}

// How long it waits there.  All had come at `from`.
TimeNs stuck_for(const Run& run, const Member& member, const StalledRank& rank, TimeNs from,
                 HostWait wait) {
  const ProcessTrace& trace = run.processes[member.process];
  const CommunicatorText& text = text_of(run, member);
  const RankState& state = *state_of(run, member.rank);
  TimeNs until = known_until(run, state);
  until = rank.aborted ? std::min(until, text.ended) : until;
  if (certainly_unfinished(rank.gpu) || wait == HostWait::kAtMost) {
    return std::max<TimeNs>(elapsed(from, until), 0);
  }
  TimeNs longest = 0;
  const std::vector<TimeNs> waiting =
      rank.aborted ? std::vector{waiting_at(trace, text.ended)}
                   : std::vector{blocked_in_nccl(run, state), blocked_in_cuda(run, state),
                                 polling_since(trace, until)};
  for (const TimeNs since : waiting) {
    if (since != 0) {
      longest = std::max(longest, elapsed(std::max(since, from), until));
    }
  }
  return longest;
}

// Of another communicator, and to be done first: by its place on the same stream, by events, or, as
// far as nothing is known of events, because it was called first.  That one tells why.
bool is_before(const Run& run, const StalledRank& rank, const OperationText& other) {
  if (other.stream == rank.operation.stream) {
    return other.position != 0 && other.position < rank.operation.position;
  }
  return run.stream_orders.contains(rank.process)
             ? is_told_behind(run, rank.process, {other.stream, other.enter}, rank.operation)
             : other.enter < rank.operation.enter;
}

// Of the same communicator: a stall is about the first collective that is not known to be finished,
// or about the first message.
bool is_of_other_sort_before(const OperationText& operation, const OperationText& other) {
  return other.collective != operation.collective && other.index < operation.index;
}

// Something of that communicator that is not kept any more lies before it, and may be pending: what
// is kept is, back to the oldest.
bool may_be_behind_evicted(const Run& run, const Member& member, const StalledRank& rank) {
  const CommunicatorText& text = text_of(run, member);
  if (text.recent.empty() || text.recent.front().index == 0) {
    return false;
  }
  const ProcessTrace& trace = run.processes[member.process];
  const OperationText& oldest = text.recent.front();
  if (pending(run, member, &oldest) == nullptr || oldest.gpu == GpuState::kReached ||
      oldest.stream > trace.streams.size() ||
      trace.streams[oldest.stream - 1].completed + 1 >= oldest.position) {
    return false;
  }
  return oldest.stream == rank.operation.stream || !run.stream_orders.contains(rank.process) ||
         is_told_behind(run, rank.process, {oldest.stream, 0}, rank.operation);
}

bool is_blocked_before(const Run& run, const Stall& stall, const StalledRank& rank) {
  return (rank.gpu == GpuState::kEnqueued &&
          (holder_of(run, stall, rank) || !is_behind_another(run, stall, rank))) ||
         function_before(run, rank.process, rank.operation) != nullptr;
}

bool has_no_room(const Run& run, const Stall& stall) {
  return std::all_of(stall.ranks.begin(), stall.ranks.end(), [&](const StalledRank& rank) {
    return !contains(stall.suspects, rank.rank) || holder_of(run, stall, rank);
  });
}

void sort_ranks(const Run& run, Stall& stall, Ranks& blocked, Ranks& stuck) {
  for (const StalledRank& rank : stall.ranks) {
    if (is_blocked_before(run, stall, rank)) {
      blocked.push_back(rank.rank);
    }
    if (rank.stuck > 0) {
      stuck.push_back(rank.rank);
    }
  }
}

// Those that wait, as far as is known, for ranks that are not stuck in it: for each other, or for
// one that has not come to something.
Ranks held_elsewhere(const Run& run, const Stall& stall) {
  const WaitSearch search(run.waits.waits);
  Ranks held = search.cycle();
  for (const Rank root : search.roots()) {
    const bool here =
        std::any_of(stall.ranks.begin(), stall.ranks.end(),
                    [&](const StalledRank& rank) { return rank.rank == root && rank.stuck > 0; });
    for (const Rank rank : here ? Ranks() : search.victims_of({root})) {
      insert(held, rank);
    }
  }
  return held;
}

// It waits in something that it called after that.
bool waits_later(const Run& run, const StalledRank& rank) {
  return std::any_of(run.waits.waits.begin(), run.waits.waits.end(), [&](const Wait& wait) {
    return std::any_of(wait.waiters.begin(), wait.waiters.end(), [&](const Waiter& waiter) {
      return waiter.rank == rank.rank && waiter.since >= rank.operation.enter;
    });
  });
}

// Those of which is not seen that their GPU has not done it either.
Ranks waiting_elsewhere(const Run& run, const Stall& stall) {
  Ranks waiting;
  const Ranks held = held_elsewhere(run, stall);
  for (const StalledRank& rank : stall.ranks) {
    if (contains(held, rank.rank) && !certainly_unfinished(rank.gpu) && waits_later(run, rank)) {
      waiting.push_back(rank.rank);
    }
  }
  return waiting;
}

// That its GPU is through is for its host to see.
bool is_for_a_stopped_host_to_see(const Run& run, const Stall& stall, const StalledRank& rank) {
  const RankState* const state = state_of(run, rank.rank);
  return state != nullptr && was_stopped_first(run, *state, stall.since) &&
         !certainly_unfinished(rank.gpu);
}

// Its GPU has come to it, and to nothing that was called on the communicator after it; or the event
// behind it was still pending when it was polled.
bool is_observed_in_it(const Run& run, const Stall& stall, const StalledRank& rank) {
  const ProcessTrace& trace = run.processes[rank.process];
  if (rank.gpu == GpuState::kReached) {
    const Member* const member = member_of(run.communicators[stall.communicator], rank.rank);
    const std::vector<OperationText>& recent = text_of(run, *member).recent;
    return std::none_of(recent.begin(), recent.end(), [&](const OperationText& other) {
      return other.index > rank.operation.index && gpu_state(trace, other) == GpuState::kReached;
    });
  }
  return certainly_unfinished(rank.gpu) && rank.gpu != GpuState::kEnqueued;
}

bool is_on_one_host(const Run& run, const Stall& stall) {
  const std::string& host = run.processes[stall.ranks.front().process].host;
  const Communicator& communicator = run.communicators[stall.communicator];
  return std::all_of(
      communicator.members.begin(), communicator.members.end(),
      [&](const Member& member) { return run.processes[member.process].host == host; });
}

void classify(const Run& run, Stall& stall) {
  Ranks blocked;
  Ranks stuck;
  sort_ranks(run, stall, blocked, stuck);
  const auto count = [&](GpuState state) {
    return static_cast<size_t>(
        std::count_if(stall.ranks.begin(), stall.ranks.end(),
                      [&](const StalledRank& rank) { return rank.gpu == state; }));
  };
  if (!blocked.empty()) {
    stall.suspects = blocked;
    stall.kind = has_no_room(run, stall) ? StallKind::kNoRoom : StallKind::kBlocked;
    const bool function =
        std::any_of(stall.ranks.begin(), stall.ranks.end(), [&](const StalledRank& rank) {
          return function_before(run, rank.process, rank.operation) != nullptr;
        });
    // Those that have come to it wait there, be they as few as those that have not.
    stall.known = function || blocked.size() <= count(GpuState::kReached) + stall.finished.size();
  } else if (!stall.finished.empty()) {
    const Ranks elsewhere = waiting_elsewhere(run, stall);
    std::erase_if(stuck, [&](Rank rank) { return contains(elsewhere, rank); });
    for (const StalledRank& rank : stall.ranks) {
      if (is_for_a_stopped_host_to_see(run, stall, rank)) {
        std::erase(stuck, rank.rank);
      }
    }
    stall.kind = StallKind::kBehind;
    stall.suspects = stuck;
    // Where all need all, who is through with it has had what every member gave: of as many ranks
    // of one host those whose GPUs are seen to be in it are held up by themselves.  Between hosts
    // it may be the network.
    const bool all_seen =
        direction_of(stall.function) == Direction::kAllToAll &&
        stuck.size() == stall.finished.size() && is_on_one_host(run, stall) &&
        std::all_of(stall.ranks.begin(), stall.ranks.end(), [&](const StalledRank& rank) {
          return !contains(stuck, rank.rank) || is_observed_in_it(run, stall, rank);
        });
    stall.known = all_seen || stuck.size() < stall.finished.size();
  } else {
    stall.known = count(GpuState::kReached) == stall.ranks.size();
  }
}

// When the member's GPU is known to have been through with it; 0: that is not known.
TimeNs known_through(const Run& run, const Member& member, uint64_t sequence) {
  const ProcessTrace& trace = run.processes[member.process];
  const OperationText* const operation = collective_at(text_of(run, member), sequence);
  if (operation == nullptr || operation->completed != 0) {
    return operation == nullptr ? 0 : operation->completed;
  }
  const size_t stream = operation->stream;
  return stream != 0 && stream <= trace.streams.size() && operation->position != 0 &&
                 trace.streams[stream - 1].completed >= operation->position
             ? trace.streams[stream - 1].completed_time
             : 0;
}

// Some other was through with it for as long as a hang takes before the records of the suspects
// end: the traces were not read at one moment.
bool is_finished_for_long(const Run& run, const Stall& stall) {
  const Communicator& communicator = run.communicators[stall.communicator];
  return std::any_of(stall.finished.begin(), stall.finished.end(), [&](Rank other) {
    const TimeNs through = known_through(run, *member_of(communicator, other), stall.sequence);
    return through != 0 &&
           std::all_of(stall.suspects.begin(), stall.suspects.end(), [&](Rank suspect) {
             return elapsed(through, known_until(run, *state_of(run, suspect))) >= run.hang_after;
           });
  });
}

// The others have finished it, and had all that they needed: however long the job's steps are, it
// does not take the GPUs that are seen in it longer.
bool is_seen_behind(const Run& run, const Stall& stall) {
  return stall.kind == StallKind::kBehind && stall.known && !stall.suspects.empty() &&
         direction_of(stall.function) == Direction::kAllToAll && is_finished_for_long(run, stall) &&
         std::all_of(stall.ranks.begin(), stall.ranks.end(), [&](const StalledRank& rank) {
           return !contains(stall.suspects, rank.rank) ||
                  (rank.gpu == GpuState::kReached && is_observed_in_it(run, stall, rank));
         });
}

// Nobody is seen to be in it: all that might be wait elsewhere, after it or before it, as for a
// rank that is only late.
bool is_seen_by_nobody(const Run& run, const Stall& stall) {
  if (stall.kind != StallKind::kTransport) {
    return false;
  }
  const Ranks held = held_elsewhere(run, stall);
  return !held.empty() &&
         std::all_of(stall.ranks.begin(), stall.ranks.end(), [&](const StalledRank& rank) {
           return rank.stuck <= 0 ||
                  (contains(held, rank.rank) &&
                   (is_behind_another(run, stall, rank) ||
                    (!certainly_unfinished(rank.gpu) && waits_later(run, rank))));
         });
}

void add_member(const Run& run, const Member& member, const OperationText& operation, HostWait wait,
                Stall& stall) {
  const ProcessTrace& trace = run.processes[member.process];
  const CommunicatorText& text = text_of(run, member);
  if (finished(trace, operation)) {
    stall.finished.push_back(member.rank);
    return;
  }
  stall.function = call_name(trace, operation.call);
  StalledRank rank{member.rank, member.process, operation, gpu_state(trace, operation), 0, false};
  rank.aborted = (text.flags & format::kAborted) != 0 && text.ended != 0;
  rank.stuck = stuck_for(run, member, rank, stall.since, wait);
  stall.waited = std::max(stall.waited, rank.stuck);
  stall.ranks.push_back(rank);
}

}  // namespace

std::optional<Stall> stall_of_parts(const Run& run, size_t communicator, uint64_t sequence,
                                    const std::vector<StallPart>& parts, HostWait wait) {
  Stall stall;
  stall.communicator = communicator;
  stall.sequence = sequence;
  for (const StallPart& part : parts) {
    stall.since = std::max(stall.since, part.operation->enter);
  }
  for (const StallPart& part : parts) {
    add_member(run, *part.member, *part.operation, wait, stall);
  }
  if (stall.waited < run.hang_after) {
    return std::nullopt;
  }
  classify(run, stall);
  // Divided, since times in a damaged trace may be anything.
  if (wait == HostWait::kShown && !is_seen_behind(run, stall) &&
      stall.waited / kPaces < pace_of(run, run.communicators[communicator], stall.since)) {
    return std::nullopt;
  }
  if ((stall.kind == StallKind::kBehind && stall.suspects.empty()) ||
      is_seen_by_nobody(run, stall)) {
    return std::nullopt;
  }
  // Of a message the suspect's side.
  for (const StalledRank& rank : stall.ranks) {
    if (contains(stall.suspects, rank.rank)) {
      stall.function = call_name(run.processes[rank.process], rank.operation.call);
    }
  }
  return stall;
}

namespace {

std::optional<Stall> stall_in(const Run& run, size_t index, uint64_t sequence, HostWait wait) {
  std::vector<StallPart> parts;
  for (const Member& member : run.communicators[index].members) {
    const OperationText* const operation = collective_at(text_of(run, member), sequence);
    if (operation == nullptr) {
      return std::nullopt;
    }
    parts.push_back({&member, operation});
  }
  return stall_of_parts(run, index, sequence, parts, wait);
}

// What some are known to have finished others may just not have asked for: one further on of which
// more is known says what holds them up.
std::optional<Stall> stall_of(const Run& run, size_t index, HostWait wait) {
  const Communicator& communicator = run.communicators[index];
  if (communicator.members.size() < 2 || !communicator.absent.empty() ||
      static_cast<int>(communicator.members.size()) != communicator.size) {
    return std::nullopt;
  }
  std::optional<Stall> first;
  for (const uint64_t sequence : stalled_sequences(run, communicator)) {
    std::optional<Stall> stall = stall_in(run, index, sequence, wait);
    if (stall && stall->known) {
      return stall;
    }
    if (!first) {
      first = std::move(stall);
    }
  }
  return first;
}

}  // namespace

bool is_behind_another(const Run& run, const Stall& stall, const StalledRank& rank) {
  if (rank.gpu == GpuState::kReached) {
    return false;
  }
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Member* const member = member_of(run.communicators[i], rank.rank);
    if (member == nullptr || run.communicators[i].size == 1) {
      continue;
    }
    const bool own = i == stall.communicator;
    const std::vector<OperationText>& recent = text_of(run, *member).recent;
    if (may_be_behind_evicted(run, *member, rank) ||
        std::any_of(recent.begin(), recent.end(), [&](const OperationText& other) {
          return pending(run, *member, &other) != nullptr &&
                 (own ? is_of_other_sort_before(rank.operation, other)
                      : is_before(run, rank, other));
        })) {
      return true;
    }
  }
  return false;
}

bool is_first(const Run& run, const Stall& stall) {
  return std::none_of(stall.ranks.begin(), stall.ranks.end(),
                      [&](const StalledRank& rank) { return is_behind_another(run, stall, rank); });
}

std::vector<Stall> find_stalls(const Run& run, HostWait wait) {
  std::vector<Stall> stalls;
  if (run.waits.by_frontier) {
    for (const FrontierStall& found : run.waits.stalls) {
      stalls.push_back(found.stall);
    }
    return stalls;
  }
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (auto stall = stall_of(run, i, wait)) {
      stalls.push_back(std::move(*stall));
    }
    add_message_stalls(run, i, wait, stalls);
  }
  return stalls;
}

std::optional<OccupyingOperation> holder_of(const Run& run, const Stall& stall,
                                            const StalledRank& rank) {
  const ProcessTrace& trace = run.processes[rank.process];
  // Marks say that a stream is there, not that a kernel runs.
  const auto progress = trace.facts.find("gpu-progress");
  if (progress == trace.facts.end() || progress->second != "plugin") {
    return std::nullopt;
  }
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Member* member =
        i == stall.communicator ? nullptr : member_of(run.communicators[i], rank.rank);
    if (member == nullptr) {
      continue;
    }
    for (const OperationText& other : text_of(run, *member).recent) {
      if (other.stream != rank.operation.stream && gpu_state(trace, other) == GpuState::kReached) {
        return OccupyingOperation{i, other};
      }
    }
  }
  return std::nullopt;
}

}  // namespace traintrace
