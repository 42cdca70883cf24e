#include "interpose/tables/operations.h"

#include "format/hashes.h"
#include "interpose/gpu/marks.h"
#include "interpose/gpu/plugin.h"
#include "interpose/payload/checks.h"
#include "interpose/record/stats.h"
#include "interpose/tables/captures.h"
#include "interpose/tables/communicators.h"
#include "interpose/tables/handle_map.h"
#include "interpose/tables/streams.h"

namespace traintrace {
namespace {

using format::CallId;
using format::Communicator;
using format::Operation;

constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
constexpr int32_t kUserReduction = 5;  // ncclNumOps: handles of PreMulSum differ between ranks

uint64_t g_name_hashes[format::kCallCount];  // by call id
constexpr uint64_t kReceiveHash = format::call_name_hash("ncclRecv");

HandleMap g_peers;
uint32_t g_peers_used;
uint32_t g_peers_free;  // given back
uint32_t g_groups;      // opened so far

bool is_collective(CallId call) {
  return format::kCalls[static_cast<size_t>(call)].kind == format::Kind::Collective;
}
uint64_t name_hash(CallId call) {
  return g_name_hashes[static_cast<size_t>(call)];
}

// After operation `count`.  The counted thing's own word may be that of one more: a call that was
// left for good between the two steps.
template <class Counted>
uint64_t hash_after(const Counted& counted, uint64_t count) {
  const format::Checkpoint& latest = counted.latest[count % 2];
  return latest.sequence == count ? latest.hash : counted.hash;
}

uint64_t count_collective(Communicator& communicator, const OperationRequest& operation) {
  const uint64_t sequence = communicator.collectives + 1;
  const uint64_t hash = format::rolling_hash(
      hash_after(communicator, sequence - 1), name_hash(static_cast<CallId>(operation.call)),
      operation.count, operation.data_type, operation.reduction, operation.peer);
  replace(communicator.latest[sequence % 2], {sequence, hash});
  if (sequence % format::kCheckpointEvery == 0) {
    replace(communicator.checkpoints[sequence / format::kCheckpointEvery % format::kCheckpoints],
            {sequence, hash});
  }
  publish(communicator.hash, hash);
  publish(communicator.collectives, sequence);
  return sequence;
}

uint64_t peer_key(uint32_t communicator, uint64_t receive, int32_t peer) {
  return uint64_t{1} << 63 | static_cast<uint64_t>(communicator) << 33 | receive << 32 |
         static_cast<uint32_t>(peer);
}
uint64_t peer_key(const OperationRequest& operation) {
  const uint64_t receive = name_hash(static_cast<CallId>(operation.call)) == kReceiveHash ? 1 : 0;
  return peer_key(operation.communicator, receive, operation.peer);
}

enum PeerState : uint32_t { kPeerTaken = 0, kPeerFree = 1 };  // Peer::reserved

// The number of one that was given back; 0: there is none.
uint32_t take_free_peer() {
  for (uint32_t i = 0; load(g_peers_free) != 0 && i < g_tables.peer_count; ++i) {
    uint32_t& state = g_tables.peers[i].reserved;
    if (load(state) == kPeerFree && exchange_if<uint32_t>(state, kPeerFree, kPeerTaken)) {
      fetch_add(g_peers_free, ~0U);
      return i + 1;
    }
  }
  return 0;
}

format::Peer* peer_of(const OperationRequest& operation) {
  const uint64_t key = peer_key(operation);
  if (const uint64_t known = g_peers.find(key)) {
    return &g_tables.peers[known - 1];
  }
  uint32_t number = take_number(g_peers_used, g_tables.peer_count);
  number = number != 0 ? number : take_free_peer();
  if (number == 0 || !g_peers.put(key, number)) {
    count(format::Stat::PeersFull);
    return nullptr;
  }
  format::Peer& peer = g_tables.peers[number - 1];
  peer.is_receive = static_cast<uint32_t>(key >> 32 & 1);
  peer.peer = operation.peer;
  publish(peer.communicator, operation.communicator);
  return &peer;
}

uint64_t count_transfer(const OperationRequest& operation, uint64_t ticks) {
  format::Peer* const peer = peer_of(operation);
  if (peer == nullptr) {
    return 0;
  }
  const uint64_t sequence = peer->operations + 1;
  const uint64_t hash = format::rolling_peer_hash(hash_after(*peer, sequence - 1), operation.count,
                                                  operation.data_type);
  replace(peer->latest[sequence % 2], {sequence, hash});
  publish(peer->hash, hash);
  publish(peer->last_ticks, ticks);
  publish(peer->operations, sequence);
  return sequence;
}

template <class Counted>
void take_back(Counted& counted, uint64_t& count, uint64_t sequence) {
  if (sequence == 0 || load(count) != sequence) {
    return;
  }
  const format::Checkpoint& before = counted.latest[(sequence - 1) % 2];
  publish(counted.hash, before.sequence == sequence - 1 ? before.hash : 0);
  publish(count, sequence - 1);
}

uint64_t count_operation(Communicator& communicator, const OperationRequest& operation,
                         uint64_t ticks) {
  return is_collective(static_cast<CallId>(operation.call))
             ? count_collective(communicator, operation)
             : count_transfer(operation, ticks);
}

// The newest of a communicator, kRecentOperations.
Operation* operations_of(uint32_t communicator) {
  return g_tables.operations +
         index_of_communicator(communicator) * uint64_t{format::kRecentOperations};
}

Operation* publish_operation(Communicator& communicator, const OperationRequest& request,
                             Operation operation) {
  const uint64_t n = communicator.operations;
  operation.count = request.count;
  operation.call = request.call;
  operation.data_type = request.data_type;
  operation.flags |= request.count == 0 ? format::kEmpty : 0;
  operation.stack = request.stack;
  operation.reduction = static_cast<int16_t>(request.reduction);
  operation.peer = request.peer;
  operation.index_low = static_cast<uint32_t>(n);
  Operation& into = operations_of(request.communicator)[n % format::kRecentOperations];
  replace(into, operation);
  publish(communicator.operations, n + 1);
  publish(communicator.last_ticks, operation.enter_ticks);
  return &into;
}

// By the operation's own thread, without the locked step: what freeze_operations adds meanwhile may
// get lost, and with it only what was known a moment too late.
void add_flags(Operation& operation, unsigned flags) {
  publish(operation.flags, static_cast<uint8_t>(load(operation.flags) | flags));
}

bool is_aborted(const Operation& operation) {
  const auto index = static_cast<uint64_t>(&operation - g_tables.operations);
  const auto number = static_cast<uint32_t>(index / format::kRecentOperations + 1);
  return (load(communicator_at(number).flags) & format::kAborted) != 0;
}

// The operation is on its stream now, behind everything that was handed to it before; with
// ncclInProgress another thread is about to put it there (see operations_settled).
void launched(Operation& operation, int result, uint64_t ticks) {
  if (result != kSuccess) {
    add_flags(operation, result == kInProgress ? format::kUntracked : format::kFailed);
    return;
  }
  if ((load(operation.flags) & (format::kCaptured | format::kUntracked | format::kEmpty)) == 0) {
    const uint64_t position = issue_on(operation.stream, ticks);
    publish(operation.position, is_aborted(operation) ? format::kNeverReached : position);
  }
  add_flags(operation, format::kLaunched);
}

// The newest ones, where a group has more than fit: only those are still in the ring anyway.
void remember_grouped(ThreadState& thread, Operation* operation) {
  thread.grouped[thread.grouped_count++ % kMaxGroupedOperations] = operation;
}

uint32_t grouped_count(const ThreadState& thread) {
  constexpr auto kMost = static_cast<uint32_t>(kMaxGroupedOperations);
  return thread.grouped_count < kMost ? thread.grouped_count : kMost;
}

OperationRequest described(const OperationArguments& arguments, uint32_t communicator) {
  OperationRequest operation{};
  operation.count = arguments.count;
  operation.communicator = communicator;
  operation.stack = arguments.stack;
  operation.reduction = arguments.reduction > kUserReduction ? kUserReduction : arguments.reduction;
  operation.peer = arguments.peer;
  operation.call = static_cast<uint16_t>(arguments.call);
  operation.data_type = static_cast<uint8_t>(arguments.data_type);
  return operation;
}

}  // namespace

OperationRef operation_entered(ThreadState& thread, const OperationArguments& arguments) noexcept {
  const uint32_t number = number_of_communicator(thread, arguments.communicator, arguments.ticks);
  if (number == 0) {
    return {0, 0, nullptr};
  }
  Communicator& communicator = communicator_at(number);
  const OperationRequest operation = described(arguments, number);
  Operation rest{};
  rest.enter_ticks = arguments.ticks;
  rest.stream = stream_number(thread, arguments.stream, communicator.device);
  const bool captured = capture_of(rest.stream) != 0;
  rest.sequence = captured ? 0 : count_operation(communicator, operation, arguments.ticks);
  unsigned flags = captured ? format::kCaptured : 0;
  flags |= thread.group_depth > 0 ? format::kGrouped : 0;
  flags |= rest.stream == 0 ? format::kUntracked : 0;
  rest.flags = static_cast<uint8_t>(flags);
  rest.group = thread.group_depth > 0 ? thread.group : uint16_t{0};
  Operation* const published = publish_operation(communicator, operation, rest);
  checks_operation(*published, {arguments.source, arguments.destination});
  if (thread.group_depth == 0) {
    checks_before(thread, &published, 1);
    marks_before(thread, &published, 1);
  }
  plugin_operation_entered(thread, *published);
  return {number, rest.sequence, published};
}

void operation_left(ThreadState& thread, const OperationRef& ref, int result,
                    uint64_t ticks) noexcept {
  plugin_operation_left(thread);
  // Whoever breaks NCCL's rule of one thread at a time may have come round the ring, or ended it.
  if (ref.operation == nullptr || ref.operation->sequence != ref.sequence ||
      !is_in_table(ref.communicator)) {
    return;
  }
  Operation& operation = *ref.operation;
  if (thread.group_depth == 0) {
    marks_after(thread, &ref.operation, 1, result);
    checks_after(thread, &ref.operation, 1, result);
  }
  publish(operation.leave_ticks, ticks);
  const auto call = static_cast<CallId>(operation.call);
  const OperationRequest same{operation.count,     ref.communicator, operation.stack,
                              operation.reduction, operation.peer,   operation.call,
                              operation.data_type};
  if (result != kSuccess && result != kInProgress) {
    add_flags(operation, format::kFailed);
    if (is_collective(call)) {
      Communicator& communicator = communicator_at(ref.communicator);
      take_back(communicator, communicator.collectives, ref.sequence);
    } else if (format::Peer* const peer = ref.sequence == 0 ? nullptr : peer_of(same)) {
      take_back(*peer, peer->operations, ref.sequence);
    }
    return;
  }
  if ((operation.flags & format::kCaptured) != 0) {
    capture_operation(capture_of(operation.stream), same);
  }
  if ((operation.flags & format::kGrouped) != 0) {
    remember_grouped(thread, &operation);
  } else {
    launched(operation, result, ticks);
  }
}

void group_started(ThreadState& thread, uint32_t stack) noexcept {
  constexpr uint32_t kGroups = 0xfffe;
  if (thread.group_depth == 0) {
    thread.group = static_cast<uint16_t>(fetch_add(g_groups, 1U) % kGroups + 1);
  }
  ++thread.group_depth;
  if (thread.slot != nullptr) {
    if (thread.group_depth == 1) {
      publish(thread.slot->group_stack, stack);
    }
    publish(thread.slot->group_depth, static_cast<uint16_t>(thread.group_depth));
  }
}

void group_ending(ThreadState& thread) noexcept {
  if (thread.group_depth == 1) {
    checks_before(thread, thread.grouped, grouped_count(thread));
    marks_before(thread, thread.grouped, grouped_count(thread));
  }
}

void group_ended(ThreadState& thread, int result, uint64_t ticks) noexcept {
  if (thread.group_depth == 0) {
    return;
  }
  --thread.group_depth;
  if (thread.slot != nullptr) {
    publish(thread.slot->group_depth, static_cast<uint16_t>(thread.group_depth));
  }
  if (thread.group_depth > 0) {
    return;
  }
  marks_after(thread, thread.grouped, grouped_count(thread), result);
  checks_after(thread, thread.grouped, grouped_count(thread), result);
  communicators_group_ended(thread, result, ticks);
  const uint32_t count = thread.grouped_count;
  for (uint32_t i = count > kMaxGroupedOperations ? count - kMaxGroupedOperations : 0; i < count;
       ++i) {
    launched(*thread.grouped[i % kMaxGroupedOperations], result, ticks);
  }
  thread.grouped_count = 0;
}

void replay_operation(const OperationRequest& captured, uint32_t stream, uint64_t entered_ticks,
                      uint64_t ticks) noexcept {
  if (!is_in_table(captured.communicator)) {
    return;  // NCCL forbids it: the communicator has ended
  }
  Communicator& communicator = communicator_at(captured.communicator);
  Operation rest{};
  rest.enter_ticks = entered_ticks;
  rest.leave_ticks = ticks;
  rest.sequence = count_operation(communicator, captured, entered_ticks);
  rest.stream = stream;
  rest.position = captured.count == 0 ? 0 : issue_on(stream, ticks);
  rest.flags = format::kReplayed | format::kLaunched;
  publish_operation(communicator, captured, rest);
}

void operations_settled(uint32_t communicator, uint64_t ticks) noexcept {
  Operation* const recent = operations_of(communicator);
  const uint64_t used = load(communicator_at(communicator).operations);
  const uint64_t first = used > format::kRecentOperations ? used - format::kRecentOperations : 0;
  for (uint64_t n = first; n < used; ++n) {
    Operation& operation = recent[n % format::kRecentOperations];
    const bool waits =
        (load(operation.flags) & (format::kUntracked | format::kFailed)) == format::kUntracked &&
        operation.stream != 0;
    constexpr auto kRest = static_cast<uint8_t>(~format::kUntracked);
    // One of several threads that poll.
    if (waits && (fetch_and(operation.flags, kRest) & format::kUntracked) != 0) {
      launched(operation, kSuccess, ticks);
    }
  }
}

void freeze_operations(uint32_t communicator) noexcept {
  Operation* const recent = operations_of(communicator);
  for (uint32_t i = 0; i < format::kRecentOperations; ++i) {
    Operation& operation = recent[i];
    marks_freeze(operation);
    plugin_freeze(operation);
    const uint64_t position = load(operation.position);
    if (load(operation.enter_ticks) == 0 || position == 0) {
      continue;
    }
    if (has_completed(operation.stream, position)) {
      fetch_or(operation.flags, static_cast<uint8_t>(format::kFinished));
    }
    publish(operation.position, format::kNeverReached);
  }
}

void forget_operations(uint32_t communicator) noexcept {
  Operation* const recent = operations_of(communicator);
  for (uint32_t i = 0; i < format::kRecentOperations; ++i) {
    if (g_tables.progress != nullptr) {
      publish(g_tables.progress[&recent[i] - g_tables.operations].launch, 0U);
    }
    publish(recent[i].enter_ticks, uint64_t{0});
  }
  plugin_forget(index_of_communicator(communicator));
  marks_forget(index_of_communicator(communicator));
  for (uint32_t i = 0; i < g_tables.peer_count; ++i) {
    format::Peer& peer = g_tables.peers[i];
    if (load(peer.communicator) == communicator) {
      g_peers.erase(peer_key(communicator, peer.is_receive, peer.peer));
      publish(peer.communicator, 0U);
      store_fence();
      peer = {};
      publish<uint32_t>(peer.reserved, kPeerFree);
      fetch_add(g_peers_free, 1U);
    }
  }
}

void operations_start() noexcept {
  for (size_t call = 0; call < format::kCallCount; ++call) {
    g_name_hashes[call] = format::call_name_hash(format::kCalls[call].name);
  }
  g_peers_used = 0;
  g_peers_free = 0;
  g_peers.start(g_tables.peer_count);
}

void operations_drop() noexcept {
  g_peers.drop();
}

}  // namespace traintrace
