#include "analyzer/model/divergence/wrong_peers.h"

#include <algorithm>
#include <optional>

#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/peers.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/sequences.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

struct Posted {
  const Member* member = nullptr;
  const OperationText* operation = nullptr;
};

// The first of each peer and direction: what is behind it waits behind it.
void add_unanswered(const Run& run, const Communicator& communicator, const Member& member,
                    std::vector<Posted>& found) {
  const size_t first = found.size();
  const TimeNs last_seen = state_of(run, member.rank)->last_seen;
  for (const OperationText& operation : text_of(run, member).recent) {
    const bool known = std::any_of(found.begin() + static_cast<long>(first), found.end(),
                                   [&](const Posted& other) {
                                     return other.operation->peer == operation.peer &&
                                            other.operation->receive == operation.receive;
                                   });
    if (!known && is_unanswered(run, communicator, member, operation) &&
        elapsed(operation.enter, last_seen) >= run.hang_after) {
      found.push_back({&member, &operation});
    }
  }
}

// A call whose peer would have to be another one, and the call that waits for it.
struct Candidate {
  Posted wrong;
  Posted waiting;
  const OperationText* left_over = nullptr;  // without an answer: the wrong call, or a later one
  bool by_other_lines = false;               // that it is wrong is told by what other lines called
};

std::vector<Candidate> candidates_in(const std::vector<Posted>& unanswered) {
  std::vector<Candidate> found;
  for (const Posted& send : unanswered) {
    for (const Posted& receive : unanswered) {
      if (send.operation->receive || !receive.operation->receive || send.member == receive.member ||
          size_key(*send.operation) != size_key(*receive.operation)) {
        continue;
      }
      const bool from_there = receive.operation->peer == send.member->local_rank;
      const bool to_there = send.operation->peer == receive.member->local_rank;
      if (from_there && !to_there) {
        found.push_back({send, receive, send.operation, false});
      } else if (to_there && !from_there) {
        found.push_back({receive, send, receive.operation, false});
      }
    }
  }
  return found;
}

bool overlap(const Candidate& a, const Candidate& b) {
  return a.wrong.operation == b.wrong.operation || a.waiting.operation == b.waiting.operation ||
         a.waiting.operation == b.wrong.operation || a.wrong.operation == b.waiting.operation;
}

bool is_only_one(const std::vector<Candidate>& candidates, const Candidate& candidate) {
  return std::count_if(candidates.begin(), candidates.end(),
                       [&](const Candidate& other) { return overlap(candidate, other); }) == 1;
}

// The peers that one line has named in one direction, the oldest first.
struct Line {
  std::vector<int> peers;
  size_t at = 0;  // of that call
};

// As far as to `last`, which may be of another line.
Line line_of(const Run& run, const Posted& call, const OperationText& last) {
  Line line;
  const ProcessTrace& trace = run.processes[call.member->process];
  const uint64_t site = site_of(trace, call.operation->stack);
  for (const OperationText& other : text_of(run, *call.member).recent) {
    if (other.index > last.index || other.collective || other.receive != call.operation->receive ||
        site_of(trace, other.stack) != site) {
      continue;
    }
    if (other.index == call.operation->index) {
      line.at = line.peers.size();
    }
    line.peers.push_back(other.peer);
  }
  return line;
}

// After how many calls it names the same peers again, each time; 0: never, as far as is kept.
size_t period_of(const std::vector<int>& peers) {
  for (size_t period = 1; period < peers.size(); ++period) {
    if (std::equal(peers.begin() + static_cast<long>(period), peers.end(), peers.begin())) {
      return period;
    }
  }
  return 0;
}

// Of a line that goes round several peers, or of a call that was answered, one time tells less.
size_t least_before(size_t period, bool answered) {
  return period == 1 && !answered ? 1 : 2 * period;
}

bool departs(const Run& run, const Posted& call, const OperationText& last, int right) {
  Line line = line_of(run, call, last);
  line.peers[line.at] = right;
  const size_t period = period_of(line.peers);
  return period != 0 && line.at >= least_before(period, call.operation->index != last.index);
}

// Its line named the right peer again and again before it, and never this one; of a new line, all
// messages of that size and direction did.
bool names_new_peer(const Run& run, const Posted& call, int right) {
  const ProcessTrace& trace = run.processes[call.member->process];
  const OperationText& own = *call.operation;
  const bool line_is_new = line_of(run, call, own).at == 0;
  size_t times = 0;
  for (const OperationText& other : text_of(run, *call.member).recent) {
    const bool alike = !other.collective && other.receive == own.receive &&
                       other.index < own.index &&
                       (line_is_new ? size_key(other) == size_key(own)
                                    : site_of(trace, other.stack) == site_of(trace, own.stack));
    if (alike && other.peer == own.peer) {
      return false;
    }
    times += alike && other.peer == right ? 1 : 0;
  }
  return times >= kHabitTimes;
}

// Both have called a collective that lies behind the call that waits: what that waits for is not to
// come any more.
bool is_past(const Run& run, const Candidate& candidate) {
  const Posted& waiting = candidate.waiting;
  return std::any_of(
      run.communicators.begin(), run.communicators.end(), [&](const Communicator& communicator) {
        const Member* own = member_of(communicator, candidate.wrong.member->rank);
        const Member* other = member_of(communicator, waiting.member->rank);
        if (own == nullptr || other == nullptr) {
          return false;
        }
        const uint64_t reached = sequence_reached(run.processes[own->process], text_of(run, *own));
        const auto& calls = text_of(run, *other).recent;
        return std::any_of(calls.begin(), calls.end(), [&](const OperationText& call) {
          return call.collective && call.enter > waiting.operation->enter &&
                 call.sequence <= reached;
        });
      });
}

enum class Habit : uint8_t { kUnknown, kKept, kIrregular, kBroken };

// What the line did before: named the right peer each time, or in its turn.  A call with the wrong
// one may have been answered by what belongs to a later one: then that is left over, and `broken`
// the call that is meant.
Habit habit(const Run& run, const Candidate& candidate, Posted& broken) {
  const Posted& left_over = candidate.wrong;
  const bool past = is_past(run, candidate);
  for (const OperationText& call : text_of(run, *left_over.member).recent) {
    if (call.index > left_over.operation->index || call.collective ||
        call.receive != left_over.operation->receive || call.peer != left_over.operation->peer ||
        size_key(call) != size_key(*left_over.operation)) {
      continue;
    }
    broken = {left_over.member, &call};
    const bool own = &call == left_over.operation;
    const int right = candidate.waiting.member->local_rank;
    if (((past || own) && departs(run, broken, *left_over.operation, right)) ||
        (own && names_new_peer(run, broken, right))) {
      return Habit::kBroken;
    }
  }
  const Line line = line_of(run, left_over, *left_over.operation);
  const size_t period = period_of(line.peers);
  return line.at == 0                           ? Habit::kUnknown
         : period != 0 && line.at >= 2 * period ? Habit::kKept
                                                : Habit::kIrregular;
}

int offset(int from, int to, int size) {
  return ((to - from) % size + size) % size;
}

// Others' peers lie as far from themselves as the right one would from the culprit.
bool fits_others(const Run& run, const Communicator& communicator, const Candidate& candidate) {
  const OperationText& wrong = *candidate.wrong.operation;
  const int own = candidate.wrong.member->local_rank;
  const int right = offset(own, candidate.waiting.member->local_rank, communicator.size);
  int fitting = 0;
  for (const Member& member : communicator.members) {
    if (&member == candidate.wrong.member) {
      continue;
    }
    for (const OperationText& other : text_of(run, member).recent) {
      if (other.collective || other.receive != wrong.receive || other.sequence != wrong.sequence) {
        continue;
      }
      if (offset(member.local_rank, other.peer, communicator.size) != right) {
        return false;
      }
      ++fitting;
    }
  }
  return fitting > 1;
}

// It has put something that is not over behind what it was to answer, wherever that is.
bool is_in_later(const Run& run, const Member& peer, TimeNs since) {
  return std::any_of(
      run.communicators.begin(), run.communicators.end(), [&](const Communicator& communicator) {
        const Member* member = member_of(communicator, peer.rank);
        return member != nullptr && !text_of(run, *member).recent.empty() &&
               text_of(run, *member).recent.back().enter > since &&
               !finished(run.processes[member->process], text_of(run, *member).recent.back());
      });
}

// The wrong peer is further than that: it expects nothing more.
bool has_moved_on(const Run& run, const Communicator& communicator, const Candidate& candidate) {
  const Member* peer = member_at(communicator, candidate.wrong.operation->peer);
  const auto reached = [&](const Member& member) {
    return sequence_reached(run.processes[member.process], text_of(run, member));
  };
  return peer != nullptr && (reached(*peer) > reached(*candidate.wrong.member) ||
                             is_in_later(run, *peer, candidate.wrong.operation->enter));
}

enum class Evidence : uint8_t { kNone, kWeak, kStrong };

// Without what the line did before.
Evidence other_evidence(const Run& run, const Communicator& communicator,
                        const Candidate& candidate, Habit habit) {
  if (habit == Habit::kKept) {
    return Evidence::kNone;
  }
  if (habit == Habit::kUnknown && fits_others(run, communicator, candidate)) {
    return Evidence::kStrong;
  }
  // As well the peer may have left out its own side.
  return has_moved_on(run, communicator, candidate) ? Evidence::kWeak : Evidence::kNone;
}

Divergence wrong_peer(const Run& run, size_t communicator, const Candidate& candidate) {
  Divergence one;
  one.kind = DivergenceKind::kWrongPeer;
  one.communicator = one.used = communicator;
  one.own = call_of(run, *candidate.wrong.member, *candidate.wrong.operation);
  one.expected = call_of(run, *candidate.waiting.member, *candidate.waiting.operation);
  one.sequence = one.sequence_last = one.met = candidate.waiting.operation->sequence;
  one.deviants = {one.own.rank};
  one.parts = {one.deviants};
  one.others = {one.expected.rank};
  // Which of several calls was the wrong one is concluded from those around it; without stacks so
  // is which line it was.
  one.exact = candidate.wrong.operation == candidate.left_over &&
              candidate.wrong.operation->stack != 0 && !candidate.by_other_lines;
  one.complete = run.missing.empty();
  return one;
}

void add_likeliest(const Run& run, size_t index, const std::vector<Candidate>& candidates,
                   std::vector<Divergence>& found) {
  constexpr size_t kMost = 4096;  // more: everybody waits for everybody
  std::vector<Candidate> broken;
  std::vector<Evidence> others;
  for (const Candidate& candidate : candidates) {
    const bool only = is_only_one(candidates, candidate);
    Posted call;
    const Habit before =
        only || candidates.size() <= kMost ? habit(run, candidate, call) : Habit::kUnknown;
    if (before == Habit::kBroken) {
      const bool line_is_new = line_of(run, call, *candidate.left_over).at == 0;
      broken.push_back({call, candidate.waiting, candidate.left_over, line_is_new});
    }
    others.push_back(before == Habit::kBroken || !only
                         ? Evidence::kNone
                         : other_evidence(run, run.communicators[index], candidate, before));
  }
  for (const Candidate& candidate : broken) {
    if (is_only_one(broken, candidate)) {
      found.push_back(wrong_peer(run, index, candidate));
    }
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (others[i] != Evidence::kNone) {
      found.push_back(wrong_peer(run, index, candidates[i]));
      found.back().tie = others[i] == Evidence::kWeak;
    }
  }
}

// The call that only that side made: a send without its receive, or a receive without its send.
const SideCall& lone_call(const Divergence& fault) {
  return fault.kind == DivergenceKind::kMissingReceive ? fault.own : fault.expected;
}

bool is_same_call(const SideCall& a, const SideCall& b) {
  return a.rank == b.rank && a.item.operation.receive == b.item.operation.receive &&
         a.item.operation.index == b.item.operation.index;
}

bool is_excess(const Divergence& fault, const SideCall& call) {
  return fault.kind == DivergenceKind::kMessageCount
             ? is_same_call(fault.own, call) || is_same_call(fault.expected, call)
             : (fault.kind == DivergenceKind::kMissingSend ||
                fault.kind == DivergenceKind::kMissingReceive) &&
                   is_same_call(lone_call(fault), call);
}

// Of that rank: the only one, or one of a size that its other side does not have.
const SideCall* excess_in(const Divergence& fault, bool send, Rank rank) {
  if (fault.kind == DivergenceKind::kMessageCount) {
    const SideCall& call = send ? fault.own : fault.expected;
    return call.rank == rank ? &call : nullptr;
  }
  const bool lone =
      fault.kind == (send ? DivergenceKind::kMissingReceive : DivergenceKind::kMissingSend);
  return lone && lone_call(fault).rank == rank ? &lone_call(fault) : nullptr;
}

// What the rank that left out a message of that size called in excess instead.
std::optional<SideCall> excess_of(const Run& run, const std::vector<Divergence>& faults,
                                  const Divergence& fault) {
  const bool no_send = fault.kind == DivergenceKind::kMissingSend;
  const Rank lacking = no_send ? fault.own.rank : fault.expected.rank;
  const SideCall& lone = lone_call(fault);
  for (const Divergence& other : faults) {
    const SideCall* const call = excess_in(other, no_send, lacking);
    if (call != nullptr && other.communicator == fault.communicator &&
        call->item.key == lone.item.key) {
      return *call;
    }
  }
  const Communicator& communicator = run.communicators[fault.communicator];
  const Member* member = member_of(communicator, lacking);
  for (const OperationText& operation : text_of(run, *member).recent) {
    if (!operation.collective && operation.receive != no_send &&
        size_key(operation) == lone.item.key &&
        is_unanswered(run, communicator, *member, operation)) {
      return call_of(run, *member, operation);
    }
  }
  return std::nullopt;
}

}  // namespace

void find_wrong_peers(const Run& run, std::vector<Divergence>& found) {
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Communicator& communicator = run.communicators[i];
    // Who left no trace may be the one that would answer.
    if (static_cast<int>(communicator.members.size()) != communicator.size ||
        communicator.size < 3) {
      continue;
    }
    std::vector<Posted> unanswered;
    for (const Member& member : communicator.members) {
      if (member.local_rank >= 0) {
        add_unanswered(run, communicator, member, unanswered);
      }
    }
    add_likeliest(run, i, candidates_in(unanswered), found);
  }
}

void join_wrong_peers(const Run& run, std::vector<Divergence>& faults) {
  for (size_t i = 0; i < faults.size(); ++i) {
    if (faults[i].kind != DivergenceKind::kMissingSend &&
        faults[i].kind != DivergenceKind::kMissingReceive) {
      continue;
    }
    const auto excess = excess_of(run, faults, faults[i]);
    if (!excess) {
      continue;
    }
    Divergence& one = faults[i];
    const bool no_send = one.kind == DivergenceKind::kMissingSend;
    one.kind = DivergenceKind::kWrongPeer;
    one.used = one.communicator;
    one.expected = no_send ? one.expected : one.own;
    one.own = *excess;
    one.deviants = {one.own.rank};
    one.parts = {one.deviants};
    one.others = {one.expected.rank};
    one.messages.clear();
    one.tie = false;
    const SideCall own = one.own;
    std::erase_if(faults, [&](const Divergence& other) { return is_excess(other, own); });
    i = static_cast<size_t>(-1);  // from the start: they have moved
  }
}

}  // namespace traintrace
