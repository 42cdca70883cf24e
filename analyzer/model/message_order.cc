#include "analyzer/model/message_order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/model/activity.h"
#include "analyzer/model/conflicts.h"
#include "analyzer/model/messages.h"
#include "analyzer/model/peers.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

bool is_pending(const ProcessTrace& trace, const OperationText& operation) {
  constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
  return (operation.flags & kNot) == 0 && operation.position != 0 &&
         operation.position != format::kNeverReached && !finished(trace, operation);
}

using Group = std::vector<const OperationText*>;

// What lies on one stream of a member and is not known to be over, group by group.
struct Queue {
  const Member* member = nullptr;
  std::vector<Group> groups;
  size_t head = 0;  // in `groups`: the first that cannot finish as far as has been looked
};

// Lets all that can finish do so, whether or not it was seen.
class Streams {
 public:
  Streams(const Run& run, const Communicator& communicator)
      : run_(run), communicator_(communicator) {
    for (const Member& member : communicator.members) {
      add_queues(member);
    }
    for (bool news = true; news;) {
      news = false;
      for (Queue& queue : queues_) {
        while (queue.head < queue.groups.size() && can_finish(*queue.member, current(queue))) {
          ++queue.head;
          news = true;
        }
      }
    }
  }

  // The first message of the member that cannot begin, as its peer has it behind something else.
  const OperationText* stuck(const Member& member) const {
    for (const Queue& queue : queues_) {
      if (queue.member != &member || queue.head == queue.groups.size()) {
        continue;
      }
      for (const OperationText* operation : current(queue)) {
        if (!operation->collective && is_behind(member, *operation)) {
          return operation;
        }
      }
    }
    return nullptr;
  }

 private:
  static const Group& current(const Queue& queue) { return queue.groups[queue.head]; }

  void add_queues(const Member& member) {
    const ProcessTrace& trace = run_.processes[member.process];
    std::map<uint32_t, Group> streams;
    for (const OperationText& operation : text_of(run_, member).recent) {
      if (is_pending(trace, operation)) {
        streams[operation.stream].push_back(&operation);
      }
    }
    for (auto& [stream, operations] : streams) {
      std::sort(operations.begin(), operations.end(),
                [](const auto* a, const auto* b) { return a->position < b->position; });
      Queue queue;
      queue.member = &member;
      for (const OperationText* operation : operations) {
        const bool joins = !queue.groups.empty() && operation->group != 0 &&
                           operation->group == queue.groups.back().front()->group;
        if (!joins) {
          queue.groups.emplace_back();
        }
        queue.groups.back().push_back(operation);
      }
      queues_.push_back(std::move(queue));
    }
  }

  template <class Test>
  bool lies_behind(const Member& member, Test test) const {
    return std::any_of(queues_.begin(), queues_.end(), [&](const Queue& queue) {
      if (queue.member != &member) {
        return false;
      }
      for (size_t at = queue.head + 1; at < queue.groups.size(); ++at) {
        if (std::any_of(queue.groups[at].begin(), queue.groups[at].end(), test)) {
          return true;
        }
      }
      return false;
    });
  }

  // Its other side has been called, and the stream has not come to it.
  bool is_behind(const Member& member, const OperationText& operation) const {
    const Member* peer = member_at(communicator_, operation.peer);
    return peer != nullptr && peer != &member && needs_its_peer(operation) &&
           lies_behind(*peer, [&](const OperationText* other) {
             return !other->collective && other->receive != operation.receive &&
                    other->peer == member.local_rank && other->sequence == operation.sequence;
           });
  }

  static bool needs_its_peer(const OperationText& operation) {
    return operation.receive || !is_eager(operation);
  }

  bool can_finish(const Member& member, const OperationText& operation) const {
    if (!operation.collective) {
      return !is_behind(member, operation) &&
             (!needs_its_peer(operation) || !is_unanswered(run_, communicator_, member, operation));
    }
    return std::all_of(
        communicator_.members.begin(), communicator_.members.end(), [&](const Member& other) {
          return sequence_reached(run_.processes[other.process], text_of(run_, other)) >=
                     operation.sequence &&
                 !lies_behind(other, [&](const OperationText* its) {
                   return its->collective && its->sequence == operation.sequence;
                 });
        });
  }

  bool can_finish(const Member& member, const Group& group) const {
    return std::all_of(group.begin(), group.end(), [&](const OperationText* operation) {
      return can_finish(member, *operation);
    });
  }

  const Run& run_;
  const Communicator& communicator_;
  std::vector<Queue> queues_;
};

bool has_large_messages(const Run& run, const Communicator& communicator) {
  return std::any_of(
      communicator.members.begin(), communicator.members.end(), [&](const Member& member) {
        const auto& recent = text_of(run, member).recent;
        return std::any_of(recent.begin(), recent.end(), [&](const OperationText& operation) {
          return !operation.collective && (operation.receive || !is_eager(operation)) &&
                 is_pending(run.processes[member.process], operation);
        });
      });
}

Wait wait_of(const Run& run, size_t index, const Member& member, const OperationText& operation) {
  const Member& peer = *member_at(run.communicators[index], operation.peer);
  Wait wait;
  wait.kind = operation.receive ? WaitKind::kReceive : WaitKind::kSend;
  wait.communicator = index;
  wait.sequence = operation.sequence;
  wait.operation = call_name(run.processes[member.process], operation.call);
  wait.details = operation;
  wait.waiters = {waiter_of(run, member, operation.enter, operation.stack)};
  wait.awaited = {{peer.rank, false, operation.enter}};
  return wait;
}

bool is_of_peers(const Wait& wait) {
  return wait.kind == WaitKind::kSend || wait.kind == WaitKind::kReceive;
}

template <class Test>
bool waits_in(const std::vector<Wait>& waits, size_t communicator, Rank rank, Test test) {
  return std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) {
    return wait.communicator == communicator && wait.kind != WaitKind::kInit && test(wait) &&
           std::any_of(wait.waiters.begin(), wait.waiters.end(),
                       [&](const Waiter& waiter) { return waiter.rank == rank; });
  });
}

}  // namespace

void add_waits_behind_messages(const Run& run, std::vector<Wait>& waits) {
  std::vector<Wait> behind;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (!has_large_messages(run, run.communicators[i])) {
      continue;
    }
    const Streams streams(run, run.communicators[i]);
    for (const Member& member : run.communicators[i].members) {
      const OperationText* operation =
          member.local_rank < 0 || has_left(run, member) ? nullptr : streams.stuck(member);
      if (operation != nullptr && !waits_in(waits, i, member.rank, is_of_peers)) {
        behind.push_back(wait_of(run, i, member, *operation));
      }
    }
  }
  // Whoever does not wait in turn may be through with what lies before, unseen.
  for (size_t size = behind.size() + 1; behind.size() < size;) {
    size = behind.size();
    const std::vector<Wait> all = behind;
    std::erase_if(behind, [&](const Wait& wait) {
      const Rank awaited = wait.awaited.front().rank;
      const auto any = [](const Wait&) { return true; };
      return !is_held_by_divergence(run, wait.communicator, awaited) &&
             !waits_in(all, wait.communicator, awaited, any) &&
             !waits_in(waits, wait.communicator, awaited, any);
    });
  }
  std::move(behind.begin(), behind.end(), std::back_inserter(waits));
}

}  // namespace traintrace
