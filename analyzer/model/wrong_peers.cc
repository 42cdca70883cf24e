#include "analyzer/model/wrong_peers.h"

#include <algorithm>
#include <optional>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/messages.h"
#include "analyzer/model/peers.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/sequences.h"

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
        found.push_back({send, receive});
      } else if (to_there && !from_there) {
        found.push_back({receive, send});
      }
    }
  }
  return found;
}

bool is_only_one(const std::vector<Candidate>& candidates, const Candidate& candidate) {
  return std::count_if(candidates.begin(), candidates.end(), [&](const Candidate& other) {
           return other.wrong.operation == candidate.wrong.operation ||
                  other.waiting.operation == candidate.waiting.operation ||
                  other.waiting.operation == candidate.wrong.operation ||
                  other.wrong.operation == candidate.waiting.operation;
         }) == 1;
}

// What that line did before: always with the right peer, or with the wrong one too.  Nothing: it
// was not called before.
std::optional<bool> habit(const Run& run, const Candidate& candidate) {
  const Member& member = *candidate.wrong.member;
  const OperationText& operation = *candidate.wrong.operation;
  const ProcessTrace& trace = run.processes[member.process];
  const uint64_t site = site_of(trace, operation.stack);
  bool known = false;
  for (const OperationText& other : text_of(run, member).recent) {
    if (other.index >= operation.index || other.collective || other.receive != operation.receive ||
        site_of(trace, other.stack) != site) {
      continue;
    }
    if (other.peer != candidate.waiting.member->local_rank) {
      return false;
    }
    known = true;
  }
  return known ? std::optional(true) : std::nullopt;
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

// The wrong peer is further than that: it expects nothing more.
bool has_moved_on(const Run& run, const Communicator& communicator, const Candidate& candidate) {
  const Member* peer = member_at(communicator, candidate.wrong.operation->peer);
  const auto reached = [&](const Member& member) {
    return sequence_reached(run.processes[member.process], text_of(run, member));
  };
  return peer != nullptr && reached(*peer) > reached(*candidate.wrong.member);
}

enum class Evidence : uint8_t { kNone, kWeak, kStrong };

Evidence evidence_for(const Run& run, const Communicator& communicator,
                      const Candidate& candidate) {
  if (const auto before = habit(run, candidate)) {
    return *before ? Evidence::kStrong : Evidence::kNone;
  }
  if (fits_others(run, communicator, candidate)) {
    return Evidence::kStrong;
  }
  // As well the peer may have left out its own side.
  return has_moved_on(run, communicator, candidate) ? Evidence::kWeak : Evidence::kNone;
}

Divergence wrong_peer(const Run& run, size_t communicator, const Candidate& candidate) {
  Divergence one;
  one.kind = DivergenceKind::kWrongPeer;
  one.communicator = communicator;
  one.own = call_of(run, *candidate.wrong.member, *candidate.wrong.operation);
  one.expected = call_of(run, *candidate.waiting.member, *candidate.waiting.operation);
  one.sequence = one.sequence_last = one.met = candidate.waiting.operation->sequence;
  one.deviants = {one.own.rank};
  one.parts = {one.deviants};
  one.others = {one.expected.rank};
  one.exact = true;
  one.complete = run.missing.empty();
  return one;
}

// The call that only that side made: a send without its receive, or a receive without its send.
const SideCall& lone_call(const Divergence& fault) {
  return fault.kind == DivergenceKind::kMissingReceive ? fault.own : fault.expected;
}

bool is_excess(const Divergence& fault, const SideCall& call) {
  return (fault.kind == DivergenceKind::kMissingSend ||
          fault.kind == DivergenceKind::kMissingReceive) &&
         lone_call(fault).rank == call.rank &&
         lone_call(fault).item.operation.index == call.item.operation.index;
}

// What the rank that left out a message of that size called in excess instead.
std::optional<SideCall> excess_of(const Run& run, const std::vector<Divergence>& faults,
                                  const Divergence& fault) {
  const bool no_send = fault.kind == DivergenceKind::kMissingSend;
  const Rank lacking = no_send ? fault.own.rank : fault.expected.rank;
  const SideCall& lone = lone_call(fault);
  for (const Divergence& other : faults) {
    const bool opposite =
        other.kind == (no_send ? DivergenceKind::kMissingReceive : DivergenceKind::kMissingSend);
    if (opposite && other.communicator == fault.communicator && lone_call(other).rank == lacking &&
        lone_call(other).item.key == lone.item.key) {
      return lone_call(other);
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
    const std::vector<Candidate> candidates = candidates_in(unanswered);
    std::vector<Divergence> here;
    for (const Candidate& candidate : candidates) {
      const Evidence evidence = is_only_one(candidates, candidate)
                                    ? evidence_for(run, communicator, candidate)
                                    : Evidence::kNone;
      if (evidence != Evidence::kNone) {
        here.push_back(wrong_peer(run, i, candidate));
        here.back().tie = evidence == Evidence::kWeak;
      }
    }
    found.insert(found.end(), here.begin(), here.end());
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
