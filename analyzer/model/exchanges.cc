#include "analyzer/model/exchanges.h"

#include <algorithm>

#include "analyzer/model/activity.h"
#include "analyzer/model/messages.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

const OperationText* send_of(const Run& run, const Member& from, const Member& to,
                             uint64_t sequence) {
  const auto& recent = text_of(run, from).recent;
  const auto found = std::find_if(recent.begin(), recent.end(), [&](const OperationText& other) {
    return !other.collective && !other.receive && other.peer == to.local_rank &&
           other.sequence == sequence;
  });
  return found == recent.end() ? nullptr : pending(run, from, &*found);
}

WaitKind kind_of(const OperationText& operation) {
  return operation.collective ? WaitKind::kCollective
         : operation.receive  ? WaitKind::kReceive
                              : WaitKind::kSend;
}

}  // namespace

const OperationText* pending(const Run& run, const Member& member, const OperationText* operation) {
  constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
  return operation == nullptr || operation->stream == 0 || operation->position == 0 ||
                 finished(run.processes[member.process], *operation) ||
                 (operation->flags & kNot) != 0
             ? nullptr
             : operation;
}

bool may_be_one_group(const OperationText& a, const OperationText& b) {
  return a.group == b.group && (a.group != 0 || (a.flags & b.flags & format::kGrouped) != 0);
}

std::vector<Exchange> messages_of(const Run& run, size_t communicator) {
  std::vector<Exchange> found;
  const Communicator& in = run.communicators[communicator];
  for (const Member& member : in.members) {
    for (const OperationText& receive : text_of(run, member).recent) {
      if (receive.collective || !receive.receive || receive.peer == member.local_rank ||
          receive.sequence == 0 || pending(run, member, &receive) == nullptr) {
        continue;
      }
      const Member* const peer = member_at(in, receive.peer);
      const OperationText* const send =
          peer == nullptr ? nullptr : send_of(run, *peer, member, receive.sequence);
      if (send != nullptr) {
        found.push_back({communicator,
                         receive.sequence,
                         {{&member, &receive, true}, {peer, send, !is_eager(*send)}}});
      }
    }
  }
  return found;
}

Wait wait_in(const Run& run, const Exchange& exchange,
             const std::function<bool(const Part&)>& is_behind) {
  Wait wait;
  wait.communicator = exchange.communicator;
  wait.sequence = exchange.sequence;
  for (const Part& part : exchange.parts) {
    const OperationText& own = *part.operation;
    if (is_behind(part)) {
      Awaited& awaited = wait.awaited.emplace_back();
      awaited.rank = part.member->rank;
      awaited.entered = awaited.held_up = true;
      awaited.moved = text_of(run, *part.member).last;
    } else if (part.blocks) {
      wait.kind = kind_of(own);
      wait.waiters.push_back(waiter_of(run, *part.member, own.enter, own.stack));
      if (wait.details.enter == 0) {
        wait.details = own;
        wait.operation = call_name(run.processes[part.member->process], own.call);
      }
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

}  // namespace traintrace
