#include "analyzer/model/divergence/messages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "analyzer/model/divergence/channels.h"
#include "analyzer/model/divergence/message_blame.h"
#include "analyzer/model/divergence/wrong_peers.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

const OperationText* waiting_in(const Run& run, const Communicator& communicator,
                                const SideCall& call) {
  const Member* member = member_of(communicator, call.rank);
  const OperationText& operation = call.item.operation;
  if (member == nullptr || operation.enter == 0 || has_left(run, *member) ||
      (operation.flags & format::kEmpty) != 0 || finished(run.processes[call.process], operation)) {
    return nullptr;
  }
  return &operation;
}

// `waiting` is in it for what `awaited` does otherwise.
std::optional<Wait> message_wait(const Run& run, const Divergence& one, const SideCall& waiting,
                                 const SideCall& awaited) {
  const Communicator& communicator = run.communicators[one.communicator];
  const OperationText* operation = waiting_in(run, communicator, waiting);
  if (operation == nullptr) {
    return std::nullopt;
  }
  const ProcessTrace& trace = run.processes[waiting.process];
  Waiter own =
      waiter_of(run, *member_of(communicator, waiting.rank), operation->enter, operation->stack);
  own.unfinished = certainly_unfinished(gpu_state(trace, *operation));
  if (!operation->receive && is_eager(*operation) && !own.blocked && !own.unfinished) {
    return std::nullopt;
  }
  Wait wait;
  wait.kind = operation->receive ? WaitKind::kReceive : WaitKind::kSend;
  wait.communicator = one.communicator;
  wait.sequence = operation->sequence;
  wait.operation = call_name(trace, operation->call);
  wait.details = *operation;
  wait.waiters = {own};
  wait.awaited = {{awaited.rank, false, awaited.item.operation.enter}};
  return wait;
}

// What they wait in since then is no reason for anything.
void free_deviants(const Divergence& one, std::vector<Wait>& waits) {
  for (Wait& wait : waits) {
    std::erase_if(wait.waiters, [&](const Waiter& waiter) {
      return contains(one.deviants, waiter.rank) && waiter.since >= one.own.item.operation.enter;
    });
  }
}

}  // namespace

uint64_t size_key(const OperationText& operation) {
  uint64_t bytes = 0;
  const uint64_t each = bytes_of_type(operation.data_type);
  if (each != 0 && !__builtin_mul_overflow(operation.count, each, &bytes)) {
    return bytes;
  }
  return ~(operation.count << 8 | static_cast<uint8_t>(operation.data_type));
}

bool is_eager(const OperationText& operation) {
  uint64_t bytes = 0;
  return !__builtin_mul_overflow(operation.count, bytes_of_type(operation.data_type), &bytes) &&
         bytes <= kEagerBytes;
}

SideCall call_of(const Run& run, const Member& member, const OperationText& operation) {
  SideCall call{member.rank, member.process, message_item(operation)};
  call.item.function = call_name(run.processes[member.process], operation.call);
  return call;
}

void find_message_faults(const Run& run, std::vector<Divergence>& found) {
  std::vector<Divergence> faults;
  for (const Channel& channel : differing_channels(run)) {
    auto fault = first_difference(run, channel);
    fault = fault ? std::move(fault) : left_over_messages(run, channel);
    if (fault) {
      faults.push_back(std::move(*fault));
    }
  }
  join_wrong_peers(run, faults);
  blame_messages(run, faults);
  std::move(faults.begin(), faults.end(), std::back_inserter(found));
}

bool is_pending(const Run& run, const Message& message) {
  const OperationText& send = message.send.item.operation;
  const OperationText& receive = message.receive.item.operation;
  const bool received =
      receive.enter == 0 || finished(run.processes[message.receive.process], receive);
  const bool sent = send.enter == 0 || finished(run.processes[message.send.process], send);
  return !received || (!sent && !is_eager(send));
}

void add_message_waits(const Run& run, std::vector<Wait>& waits) {
  for (const Divergence& one : run.divergences) {
    if (!is_of_messages(one.kind) || one.kind == DivergenceKind::kHarmlessMessageType) {
      continue;
    }
    if (!one.tie) {
      free_deviants(one, waits);
    }
    for (const Message& message : one.messages) {
      for (const auto& [waiting, awaited] : {std::pair(&message.send, &message.receive),
                                             std::pair(&message.receive, &message.send)}) {
        if (one.tie || contains(one.deviants, awaited->rank)) {
          if (auto wait = message_wait(run, one, *waiting, *awaited)) {
            waits.push_back(std::move(*wait));
          }
        }
      }
    }
  }
}

}  // namespace traintrace
