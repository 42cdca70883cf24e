#include "analyzer/model/crossed_streams.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "analyzer/model/activity.h"
#include "analyzer/model/messages.h"
#include "analyzer/model/peers.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

// An operation of one rank, on a stream of its own.
struct Part {
  const Member* member = nullptr;
  const OperationText* operation = nullptr;
  bool blocks = true;  // its stream, until all parts have begun
};

// What is called by all that it needs, and not known to be over on all of them: a collective, or a
// message.
struct Exchange {
  size_t communicator = 0;
  uint64_t sequence = 0;
  std::vector<Part> parts;  // of a message the receiver's first
};

const OperationText* pending(const Run& run, const Member& member, const OperationText* operation) {
  constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
  return operation == nullptr || operation->stream == 0 || operation->position == 0 ||
                 operation->position == format::kNeverReached ||
                 finished(run.processes[member.process], *operation) ||
                 (operation->flags & kNot) != 0
             ? nullptr
             : operation;
}

const OperationText* pending_at(const Run& run, const Member& member, uint64_t sequence) {
  const OperationText* operation =
      pending(run, member, collective_at(text_of(run, member), sequence));
  return operation == nullptr || direction_of(call_name(run.processes[member.process],
                                                        operation->call)) != Direction::kAllToAll
             ? nullptr
             : operation;
}

// The first collective that a member of the communicator has not finished, if all have entered it.
std::optional<Exchange> first_collective(const Run& run, size_t index) {
  const Communicator& communicator = run.communicators[index];
  Exchange found;
  found.communicator = index;
  for (const Member& member : communicator.members) {
    for (const OperationText& operation : text_of(run, member).recent) {
      if (operation.collective && (found.sequence == 0 || operation.sequence < found.sequence) &&
          pending_at(run, member, operation.sequence) == &operation) {
        found.sequence = operation.sequence;
      }
    }
  }
  if (found.sequence == 0 || !communicator.absent.empty() || communicator.members.size() < 2) {
    return std::nullopt;
  }
  for (const Member& member : communicator.members) {
    const OperationText* operation = pending_at(run, member, found.sequence);
    if (operation == nullptr) {
      return std::nullopt;
    }
    found.parts.push_back({&member, operation, true});
  }
  return found;
}

const OperationText* send_of(const Run& run, const Member& from, const Member& to,
                             uint64_t sequence) {
  const auto& recent = text_of(run, from).recent;
  const auto found = std::find_if(recent.begin(), recent.end(), [&](const OperationText& other) {
    return !other.collective && !other.receive && other.peer == to.local_rank &&
           other.sequence == sequence;
  });
  return found == recent.end() ? nullptr : pending(run, from, &*found);
}

// Of each receiver the first from each of its peers that has been sent.
void add_messages(const Run& run, size_t index, std::vector<Exchange>& exchanges) {
  const Communicator& communicator = run.communicators[index];
  for (const Member& member : communicator.members) {
    std::map<int, const OperationText*> first;  // by peer
    for (const OperationText& operation : text_of(run, member).recent) {
      if (!operation.collective && operation.receive && operation.peer != member.local_rank &&
          operation.sequence != 0 && pending(run, member, &operation) != nullptr) {
        first.try_emplace(operation.peer, &operation);
      }
    }
    for (const auto& [rank, receive] : first) {
      const Member* const peer = member_at(communicator, rank);
      const OperationText* const send =
          peer == nullptr ? nullptr : send_of(run, *peer, member, receive->sequence);
      if (send != nullptr) {
        exchanges.push_back(
            {index, receive->sequence, {{&member, receive, true}, {peer, send, !is_eager(*send)}}});
      }
    }
  }
}

// What lies first on each stream, of exchanges that cannot end.
class Streams {
 public:
  explicit Streams(std::vector<Exchange> exchanges) : left_(std::move(exchanges)) {
    // What nothing holds up will end, and so will what lies behind it.
    for (size_t before = left_.size() + 1; left_.size() < before;) {
      before = left_.size();
      find_first();
      std::erase_if(left_, [&](const Exchange& exchange) {
        return std::none_of(exchange.parts.begin(), exchange.parts.end(),
                            [&](const Part& part) { return is_behind(part); });
      });
    }
  }

  const std::vector<Exchange>& left() const { return left_; }

  bool is_behind(const Part& part) const {
    const auto first = first_.find({part.member->process, part.operation->stream});
    if (first == first_.end() || first->second->position >= part.operation->position) {
      return false;
    }
    const uint32_t group = part.operation->group;  // which begins as one
    return group == 0 || group != first->second->group;
  }

 private:
  void find_first() {
    first_.clear();
    for (const Exchange& exchange : left_) {
      for (const Part& part : exchange.parts) {
        const OperationText*& first = first_[{part.member->process, part.operation->stream}];
        if (part.blocks && (first == nullptr || part.operation->position < first->position)) {
          first = part.operation;
        }
      }
    }
    std::erase_if(first_, [](const auto& entry) { return entry.second == nullptr; });
  }

  std::vector<Exchange> left_;
  std::map<std::pair<size_t, uint32_t>, const OperationText*> first_;  // by process, stream
};

void await(const Run& run, const Part& part, Wait& wait) {
  Awaited& awaited = wait.awaited.emplace_back();
  awaited.rank = part.member->rank;
  awaited.entered = awaited.held_up = true;
  awaited.moved = text_of(run, *part.member).last;
}

Wait wait_in(const Run& run, const Exchange& exchange, const Streams& streams) {
  Wait wait;
  wait.communicator = exchange.communicator;
  wait.sequence = exchange.sequence;
  for (const Part& part : exchange.parts) {
    if (streams.is_behind(part)) {
      await(run, part, wait);
    } else if (part.blocks) {
      const OperationText& own = *part.operation;
      wait.kind = own.collective ? WaitKind::kCollective
                  : own.receive  ? WaitKind::kReceive
                                 : WaitKind::kSend;
      wait.waiters.push_back(waiter_of(run, *part.member, own.enter, own.stack));
      wait.details = wait.details.enter == 0 ? own : wait.details;
      wait.operation = call_name(run.processes[part.member->process], wait.details.call);
    }
  }
  return wait;
}

bool is_known(const Wait& wait, const std::vector<Wait>& waits) {
  return std::any_of(waits.begin(), waits.end(), [&](const Wait& other) {
    return other.communicator == wait.communicator && other.kind == wait.kind &&
           other.sequence == wait.sequence &&
           (wait.kind == WaitKind::kCollective ||
            other.waiters.front().rank == wait.waiters.front().rank);
  });
}

}  // namespace

void add_crossed_waits(const Run& run, std::vector<Wait>& waits) {
  std::vector<Exchange> exchanges;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (auto collective = first_collective(run, i)) {
      exchanges.push_back(std::move(*collective));
    }
    add_messages(run, i, exchanges);
  }
  const Streams streams(std::move(exchanges));
  for (const Exchange& exchange : streams.left()) {
    Wait wait = wait_in(run, exchange, streams);
    if (!wait.waiters.empty() && !wait.awaited.empty() && !is_known(wait, waits)) {
      waits.push_back(std::move(wait));
    }
  }
}

}  // namespace traintrace
