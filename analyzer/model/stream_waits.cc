#include "analyzer/model/stream_waits.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/model/activity.h"
#include "analyzer/model/conflicts.h"
#include "analyzer/model/exchanges.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/stream_order.h"

namespace traintrace {
namespace {

// How often waiting may be handed on from communicator to communicator.
constexpr int kMostHops = 64;

// The first on each stream that cannot finish.
class Blockade {
 public:
  explicit Blockade(const Run& run) : run_(run) {}

  // Whether that is news.
  bool block(size_t process, const OperationText& operation) {
    if (operation.stream == 0 || operation.position == 0) {
      return false;
    }
    const auto [at, is_new] = first_.try_emplace({process, operation.stream}, operation);
    if (!is_new && !precedes(run_, process, operation, at->second)) {
      return false;
    }
    at->second = operation;
    return true;
  }
  bool is_behind(size_t process, const OperationText& operation) const {
    return any(process, operation, [&](const OperationText& first) {
      return precedes(run_, process, first, operation);
    });
  }
  bool is_held(size_t process, const OperationText& operation) const {
    return any(process, operation, [&](const OperationText& first) {
      return (first.stream == operation.stream && first.enter == operation.enter) ||
             precedes(run_, process, first, operation);
    });
  }
  bool begins_behind(const Part& part) const {
    const size_t process = part.member->process;
    return any(process, *part.operation, [&](const OperationText& first) {
      return precedes(run_, process, first, *part.operation) &&
             !may_be_one_group(first, *part.operation);
    });
  }

 private:
  template <class Test>
  bool any(size_t process, const OperationText& operation, Test test) const {
    for (auto at = first_.lower_bound({process, 0});
         operation.position != 0 && at != first_.end() && at->first.first == process; ++at) {
      if (test(at->second)) {
        return true;
      }
    }
    return false;
  }

  const Run& run_;
  std::map<std::pair<size_t, uint32_t>, OperationText> first_;  // by process, stream
};

const OperationText* pending_at(const Run& run, const Member& member, uint64_t sequence) {
  const OperationText* operation = collective_at(text_of(run, member), sequence);
  return operation == nullptr || (operation->flags & format::kEmpty) != 0 ||
                 finished(run.processes[member.process], *operation)
             ? nullptr
             : operation;
}

// The first collective of a communicator that cannot begin on one of its members.
std::optional<uint64_t> first_blocked(const Run& run, const Communicator& communicator,
                                      const Blockade& blockade) {
  std::optional<uint64_t> first;
  for (const Member& member : communicator.members) {
    for (const OperationText& operation : text_of(run, member).recent) {
      if (operation.collective && blockade.is_held(member.process, operation) &&
          (!first || operation.sequence < *first) &&
          pending_at(run, member, operation.sequence) == &operation) {
        first = operation.sequence;
      }
    }
  }
  return first;
}

void block_waiters(const Run& run, const std::vector<Wait>& waits, Blockade& blockade) {
  for (const Wait& wait : waits) {
    const Communicator& communicator = run.communicators[wait.communicator];
    for (const Waiter& waiter : wait.waiters) {
      const bool of_peers = wait.kind == WaitKind::kReceive || wait.kind == WaitKind::kSend;
      const Member* member = member_of(communicator, waiter.rank);
      const OperationText* operation =
          of_peers ? &wait.details : pending_at(run, *member, wait.sequence);
      if (wait.kind != WaitKind::kInit && operation != nullptr) {
        blockade.block(waiter.process, *operation);
      }
    }
  }
}

bool needs_all(const Run& run, const Member& member, const OperationText& operation) {
  const Direction direction =
      direction_of(call_name(run.processes[member.process], operation.call));
  return direction == Direction::kAllToAll ||
         (direction == Direction::kToRoot && member.local_rank >= 0 &&
          member.local_rank == operation.peer);
}

// Who issued something else than the others, in which it needs them all, waits for those who have
// not come there as well.
void block_deviants(const Run& run, Blockade& blockade) {
  for (const Divergence& divergence : run.divergences) {
    const Communicator& communicator = run.communicators[divergence.communicator];
    const bool all_came = std::all_of(
        communicator.members.begin(), communicator.members.end(), [&](const Member& member) {
          return sequence_reached(run.processes[member.process], text_of(run, member)) >=
                 divergence.met;
        });
    const bool holds = is_conflict(divergence) && !all_came;
    for (const Rank rank : holds ? divergence.deviants : Ranks()) {
      const Member* const member = member_of(communicator, rank);
      const OperationText* const operation =
          member == nullptr ? nullptr : pending_at(run, *member, divergence.met);
      if (operation != nullptr && needs_all(run, *member, *operation)) {
        blockade.block(member->process, *operation);
      }
    }
  }
}

// Who has operation `sequence` on a stream behind something else holds up who has it first.
Wait held_up_wait(const Run& run, size_t index, uint64_t sequence, const Blockade& blockade) {
  Wait wait;
  wait.communicator = index;
  wait.sequence = sequence;
  for (const Member& member : run.communicators[index].members) {
    const OperationText* operation = pending_at(run, member, sequence);
    if (operation == nullptr) {
      continue;
    }
    if (blockade.is_behind(member.process, *operation)) {
      Awaited& awaited = wait.awaited.emplace_back();
      awaited.rank = member.rank;
      awaited.entered = awaited.held_up = true;
      awaited.moved = text_of(run, member).last;
    } else {
      wait.waiters.push_back(waiter_of(run, member, operation->enter, operation->stack));
      if (wait.details.enter == 0) {
        wait.details = *operation;
        wait.operation = call_name(run.processes[member.process], operation->call);
      }
    }
  }
  return wait;
}

void add_wait(Wait wait, std::vector<Wait>& waits) {
  if (!wait.waiters.empty() && !wait.awaited.empty()) {
    waits.push_back(std::move(wait));
  }
}

// What one side has behind something that cannot finish cannot finish on the other.
bool block_other_side(const Exchange& message, Blockade& blockade) {
  bool news = false;
  for (size_t side = 0; side < 2; ++side) {
    const Part& other = message.parts[1 - side];
    news = (other.blocks && blockade.begins_behind(message.parts[side]) &&
            blockade.block(other.member->process, *other.operation)) ||
           news;
  }
  return news;
}

// Of each pair of ranks the first in each direction: later ones wait behind it.
void add_waits_for_messages(const Run& run, const std::vector<Exchange>& messages,
                            const Blockade& blockade, std::vector<Wait>& waits) {
  std::set<std::tuple<size_t, Rank, Rank>> found;
  for (const Exchange& message : messages) {
    Wait wait =
        wait_in(run, message, [&](const Part& part) { return blockade.begins_behind(part); });
    if (!wait.waiters.empty() && !wait.awaited.empty() && !is_known(wait, waits) &&
        found
            .emplace(message.communicator, message.parts[0].member->rank,
                     message.parts[1].member->rank)
            .second) {
      waits.push_back(std::move(wait));
    }
  }
}

}  // namespace

void add_stream_waits(const Run& run, std::vector<Wait>& waits) {
  Blockade blockade(run);
  block_waiters(run, waits, blockade);
  block_deviants(run, blockade);
  std::vector<Exchange> messages;
  for (size_t i = 0; i < run.communicators.size() && !waits.empty(); ++i) {
    std::vector<Exchange> own = messages_of(run, i);
    std::move(own.begin(), own.end(), std::back_inserter(messages));
  }
  bool news = !waits.empty();
  for (int hop = 0; news && hop < kMostHops; ++hop) {
    news = false;
    for (const Communicator& communicator : run.communicators) {
      const auto sequence = first_blocked(run, communicator, blockade);
      for (const Member& member : communicator.members) {
        const OperationText* operation = sequence ? pending_at(run, member, *sequence) : nullptr;
        news = (operation != nullptr && blockade.block(member.process, *operation)) || news;
      }
    }
    for (const Exchange& message : messages) {
      news = block_other_side(message, blockade) || news;
    }
  }
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (const auto sequence = first_blocked(run, run.communicators[i], blockade)) {
      add_wait(held_up_wait(run, i, *sequence, blockade), waits);
    }
  }
  add_waits_for_messages(run, messages, blockade, waits);
}

}  // namespace traintrace
