#include "interpose/payload/checks.h"

#include <string.h>

#include <algorithm>

#include "interpose/gpu/own_gpu.h"
#include "interpose/payload/checks_ring.h"
#include "interpose/record/definitions.h"
#include "interpose/record/stats.h"
#include "interpose/tables/communicators.h"
#include "interpose/tables/streams.h"

namespace traintrace {

constinit Checks g_checks = {};

namespace {

using format::CallId;
using format::CheckedOperation;
using format::Operation;
using format::PayloadCell;

// Few enough to leave most of the GPU to what runs beside them, as in PyTorch's check for NaN (24).
constexpr uint32_t kMostBlocks = 24;
constexpr uint64_t kBytesPerBlock = 64 << 10;
// Of a communicator with more ranks what it gathers is left out.
constexpr uint32_t kMostParts = 256;

// One side of an operation that can be looked at.
struct View {
  uint64_t address;
  uint32_t parts;  // 0: there is nothing to look at
};

CheckedOperation checked(uint16_t call) {
  switch (static_cast<CallId>(call)) {
    case CallId::ncclAllReduce:
      return format::kCheckedAllReduce;
    case CallId::ncclReduce:
      return format::kCheckedReduce;
    case CallId::ncclBroadcast:
    case CallId::ncclBcast:
      return format::kCheckedBroadcast;
    case CallId::ncclAllGather:
      return format::kCheckedAllGather;
    case CallId::ncclReduceScatter:
      return format::kCheckedReduceScatter;
    case CallId::ncclAlltoAll:
      return format::kCheckedAllToAll;
    case CallId::ncclGather:
      return format::kCheckedGather;
    case CallId::ncclScatter:
      return format::kCheckedScatter;
    case CallId::ncclSend:
      return format::kCheckedSend;
    case CallId::ncclRecv:
      return format::kCheckedReceive;
    default:
      return format::kCheckedNothing;
  }
}

uint32_t communicator_of(const Operation& operation) {
  const auto index = static_cast<uint64_t>(&operation - g_tables.operations);
  return g_tables.communicators[index / format::kRecentOperations].number;
}

View view_of(const Operation& operation, const format::Communicator& communicator,
             format::CheckedSide side) {
  const CheckedBuffers& buffers = g_checks.buffers[&operation - g_tables.operations];
  const bool input = side == format::kCheckedInput;
  const bool is_root = communicator.rank >= 0 && communicator.rank == operation.peer;
  const auto all = static_cast<uint32_t>(communicator.size > 0 ? communicator.size : 0);
  const uint64_t address = input ? buffers.source : buffers.destination;
  switch (checked(operation.call)) {
    case format::kCheckedAllReduce:
      return {address, 1};
    case format::kCheckedReduce:
      return {address, input || is_root ? 1U : 0};
    case format::kCheckedBroadcast: {
      const bool in_place = static_cast<CallId>(operation.call) == CallId::ncclBcast;
      return {in_place ? buffers.destination : address, !input || is_root ? 1U : 0};
    }
    case format::kCheckedAllGather:
      return {address, input ? 1 : all};
    case format::kCheckedReduceScatter:
      return {address, input ? all : 1};
    case format::kCheckedAllToAll:
      return {address, all};
    case format::kCheckedGather:
      return {address, input ? 1 : is_root ? all : 0};
    case format::kCheckedScatter:
      return {address, !input ? 1 : is_root ? all : 0};
    case format::kCheckedSend:
      return {address, input ? 1U : 0};
    case format::kCheckedReceive:
      return {address, input ? 0 : 1U};
    case format::kCheckedNothing:
      break;
  }
  return {};
}

bool is_on_a_stream(const Operation& operation) {
  constexpr unsigned kNot = format::kEmpty | format::kFailed | format::kUntracked;
  return operation.stream != 0 && (load(operation.flags) & kNot) == 0;
}

uint32_t blocks_for(uint64_t part_bytes, uint32_t parts) {
  const uint64_t wanted = part_bytes / kBytesPerBlock + 1;
  const uint64_t most = std::max<uint64_t>(kMostBlocks / parts, 1);
  return static_cast<uint32_t>(std::min(wanted, most));
}

// The ticket of so many cells in a row; what is left to the end of the ring is skipped.
bool reserve(uint32_t cells, uint64_t& ticket) {
  uint64_t head = load(g_checks.head);
  for (;;) {
    const uint64_t at = head % kCheckCells;
    const uint64_t skipped = at + cells > kCheckCells ? kCheckCells - at : 0;
    if (head + skipped + cells - load(g_checks.tail) > kCheckCells) {
      return false;
    }
    if (!exchange_if(g_checks.head, head, head + skipped + cells)) {
      head = load(g_checks.head);
      continue;
    }
    if (skipped != 0) {
      Check& check = g_checks.ring[at];
      check.way = Way::kNone;
      check.cells = static_cast<uint16_t>(skipped);
      check.recorded = false;
      publish(check.ready, head + 1);
    }
    ticket = head + skipped;
    return true;
  }
}

void look(ThreadState& thread, const Operation& operation, format::CheckedSide side) {
  const uint32_t number = communicator_of(operation);
  const format::Communicator& communicator = communicator_at(number);
  const View view = view_of(operation, communicator, side);
  if (view.parts == 0 || view.address == 0 || operation.data_type >= check::kElementTypes) {
    return;
  }
  const uint64_t part_bytes = operation.count * check::bytes_of(operation.data_type);
  const bool small = part_bytes * view.parts <= kMostSmallBytes;
  if (!small && g_payload < Payload::kCheck) {
    return;
  }
  const bool copies = g_payload < Payload::kCheck;
  const uint32_t blocks = copies ? 1 : blocks_for(part_bytes, view.parts);
  const uint32_t cells = copies ? 2 : blocks * view.parts;
  // NCCL copies from any address; a load of a GPU from one that does not fit the type ends its
  // context.
  const bool loads = copies || view.address % check::bytes_of(operation.data_type) == 0;
  uint64_t ticket = 0;
  if (!loads || view.parts > kMostParts || !reserve(cells, ticket)) {
    count(format::Stat::PayloadUnchecked);
    return;
  }
  const uint64_t at = ticket % kCheckCells;
  const uint64_t stamp = ticket + 1;
  const uint64_t stream = load(g_tables.streams[operation.stream - 1].handle_tag) - 1;
  Check& check = g_checks.ring[at];
  check.sequence = operation.sequence;
  check.count = operation.count;
  check.communicator = number;
  check.stack = operation.stack;
  check.peer = operation.peer;
  check.reduction = operation.reduction;
  check.parts = static_cast<uint16_t>(view.parts);
  check.cells = static_cast<uint16_t>(cells);
  check.blocks = static_cast<uint16_t>(blocks);
  check.operation = checked(operation.call);
  check.side = side;
  check.data_type = operation.data_type;
  check.device = thread.device;
  check.way = copies ? Way::kCopy : Way::kKernel;
  check.recorded = false;
  publish(check.ready, stamp);  // before the launch, which a thread that is cancelled may not leave
  PayloadCell* const into = g_checks.device_cells + at;
  const bool launched =
      copies
          ? g_checks.driver.copy(thread, stream, view.address, part_bytes * view.parts, into, stamp)
          : g_checks.driver.launch(thread, stream,
                                   {reinterpret_cast<const void*>(view.address), operation.count,
                                    operation.data_type, view.parts, blocks, 0, into, stamp});
  if (!launched) {
    publish(check.way, Way::kNone);
    count(format::Stat::PayloadUnchecked);
  }
}

// What was captured runs when its graph is launched: it is counted, not checked.
bool may_check(ThreadState& thread, const Operation& operation) {
  const format::Communicator& communicator = communicator_at(communicator_of(operation));
  if (checked(operation.call) == format::kCheckedNothing || !is_on_a_stream(operation)) {
    return false;
  }
  const bool ours = (communicator.device < 0 || communicator.device == g_checks.device) &&
                    (load(communicator.flags) & format::kAborted) == 0 &&
                    own_gpu_reason_against(communicator) == nullptr;
  const bool free =
      ours && (load(operation.flags) & format::kCaptured) == 0 &&
      g_checks.driver.may_work(thread, load(g_tables.streams[operation.stream - 1].handle_tag) - 1);
  if (!free) {
    count(format::Stat::PayloadUnchecked);
  }
  return free;
}

}  // namespace

bool checks_turn_on(const CheckDriver& driver, PayloadCell* cells, PayloadCell* device_cells,
                    int32_t device) noexcept {
  g_checks.ring = private_block<Check>(kCheckCells);
  g_checks.buffers = private_block<CheckedBuffers>(g_tables.communicator_count *
                                                   uint64_t{format::kRecentOperations});
  if (g_checks.ring == nullptr || g_checks.buffers == nullptr) {
    return false;
  }
  g_checks.driver = driver;
  g_checks.cells = cells;
  g_checks.device_cells = device_cells;
  g_checks.device = device;
  publish(g_checks.on, true);
  return true;
}

void checks_turn_off(ThreadState& thread, const char* why) noexcept {
  if (exchange_if(g_checks.on, true, false)) {
    define_fact(thread, "payload-checks-ended", why, strlen(why));
  }
}

bool checks_are_on() noexcept {
  return load(g_checks.on);
}

void checks_operation(const Operation& operation, const CheckedBuffers& buffers) noexcept {
  if (checks_are_on()) {
    g_checks.buffers[&operation - g_tables.operations] = buffers;
  }
}

void checks_before(ThreadState& thread, Operation* const* operations, uint32_t count) noexcept {
  for (uint32_t i = 0; checks_are_on() && i < count; ++i) {
    CheckedBuffers& buffers = g_checks.buffers[operations[i] - g_tables.operations];
    if (may_check(thread, *operations[i])) {
      look(thread, *operations[i], format::kCheckedInput);
    } else {
      buffers = {};  // nor afterwards
    }
  }
}

void checks_after(ThreadState& thread, Operation* const* operations, uint32_t count,
                  int result) noexcept {
  for (uint32_t i = 0; checks_are_on() && result == 0 && i < count; ++i) {
    const Operation& operation = *operations[i];
    const format::Communicator& communicator = communicator_at(communicator_of(operation));
    if (g_checks.buffers[operations[i] - g_tables.operations].destination != 0 &&
        is_on_a_stream(operation) && (load(communicator.flags) & format::kAborted) == 0) {
      look(thread, operation, format::kCheckedOutput);
    }
  }
}

void checks_drop() noexcept {
  g_checks = {};
}

}  // namespace traintrace
