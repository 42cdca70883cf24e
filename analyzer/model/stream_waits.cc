#include "analyzer/model/stream_waits.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "analyzer/model/activity.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

constexpr uint64_t kNowhere = std::numeric_limits<uint64_t>::max();
// How often waiting may be handed on from communicator to communicator.
constexpr int kMostHops = 64;

// The first position on each stream that cannot finish.
class Blockade {
 public:
  // Whether that is news.
  bool block(size_t process, const OperationText& operation) {
    if (operation.stream == 0 || operation.position == 0) {
      return false;
    }
    uint64_t& first = first_.try_emplace({process, operation.stream}, kNowhere).first->second;
    if (operation.position >= first) {
      return false;
    }
    first = operation.position;
    return true;
  }
  // Of the operation's stream.
  uint64_t position(size_t process, const OperationText& operation) const {
    const auto found = first_.find({process, operation.stream});
    return found == first_.end() || operation.position == 0 ? kNowhere : found->second;
  }

 private:
  std::map<std::pair<size_t, uint32_t>, uint64_t> first_;
};

const OperationText* pending(const Run& run, const Member& member, uint64_t sequence) {
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
      if (operation.collective &&
          operation.position >= blockade.position(member.process, operation) &&
          (!first || operation.sequence < *first) &&
          pending(run, member, operation.sequence) == &operation) {
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
          of_peers ? &wait.details : pending(run, *member, wait.sequence);
      if (wait.kind != WaitKind::kInit && operation != nullptr) {
        blockade.block(waiter.process, *operation);
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
    const OperationText* operation = pending(run, member, sequence);
    if (operation == nullptr) {
      continue;
    }
    if (blockade.position(member.process, *operation) < operation->position) {
      Awaited& awaited = wait.awaited.emplace_back();
      awaited.rank = member.rank;
      awaited.entered = awaited.held_up = true;
      awaited.moved = text_of(run, member).last;
    } else {
      wait.waiters.push_back(waiter_of(run, member, operation->enter, operation->stack));
      wait.details = wait.details.enter == 0 ? *operation : wait.details;
      wait.operation = call_name(run.processes[member.process], wait.details.call);
    }
  }
  return wait;
}

}  // namespace

void add_stream_waits(const Run& run, std::vector<Wait>& waits) {
  Blockade blockade;
  block_waiters(run, waits, blockade);
  bool news = !waits.empty();
  for (int hop = 0; news && hop < kMostHops; ++hop) {
    news = false;
    for (const Communicator& communicator : run.communicators) {
      const auto sequence = first_blocked(run, communicator, blockade);
      for (const Member& member : communicator.members) {
        const OperationText* operation = sequence ? pending(run, member, *sequence) : nullptr;
        news = (operation != nullptr && blockade.block(member.process, *operation)) || news;
      }
    }
  }
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (const auto sequence = first_blocked(run, run.communicators[i], blockade)) {
      Wait wait = held_up_wait(run, i, *sequence, blockade);
      if (!wait.waiters.empty() && !wait.awaited.empty()) {
        waits.push_back(std::move(wait));
      }
    }
  }
}

}  // namespace traintrace
