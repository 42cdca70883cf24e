#include <sched.h>

#include <algorithm>
#include <iterator>

#include "interpose/base/inside.h"
#include "interpose/calls/open_call.h"
#include "interpose/payload/checks_ring.h"
#include "interpose/record/clock.h"
#include "interpose/record/recorder.h"

namespace traintrace {
namespace {

// The tracer's own thread may be at it when the process ends.
constexpr uint64_t kPatienceNs = 20'000'000;

using format::PayloadCell;
using format::PayloadTally;

bool is_done(const Check& check, uint64_t ticket) {
  const PayloadCell* const cells = g_checks.cells + ticket % kCheckCells;
  const Way way = load(check.way);
  if (way == Way::kCopy) {
    return load(cells[1].stamp) == ticket + 1;
  }
  const uint32_t count = uint32_t{check.parts} * check.blocks;
  return way == Way::kNone || std::all_of(cells, cells + count, [&](const PayloadCell& cell) {
           return load(cell.stamp) == ticket + 1;
         });
}

// All blocks of a part together.
PayloadCell joined(const Check& check, uint64_t ticket, uint32_t part) {
  const PayloadCell* const cells = g_checks.cells + ticket % kCheckCells;
  PayloadCell all = {};
  if (check.way == Way::kCopy) {
    check::fill(all, {cells, check.count, check.data_type, check.parts, 1, 0, nullptr, 0}, part);
    return all;
  }
  for (uint32_t block = 0; block < check.blocks; ++block) {
    const PayloadCell& cell = cells[part * check.blocks + block];
    check::join(all.tally, cell.tally);
    for (uint32_t row = 0; row < format::kPayloadRows; ++row) {
      all.rows[row].signed_sum += cell.rows[row].signed_sum;
      all.rows[row].square_sum += cell.rows[row].square_sum;
    }
  }
  return all;
}

uint64_t bits_of(double value) {
  return __builtin_bit_cast(uint64_t, value);
}

// A sum that the analyzer compares with what its inputs may give.
bool is_sketched(const Check& check) {
  constexpr int16_t kSum = 0, kAverage = 4;  // ncclRedOp_t
  const bool adds = check.operation == format::kCheckedAllReduce ||
                    check.operation == format::kCheckedReduce ||
                    check.operation == format::kCheckedReduceScatter;
  return adds && (check.reduction == kSum || check.reduction == kAverage) &&
         check.data_type >= check::kFloat16 && check.data_type <= check::kBfloat16;
}

void record_sketch(ThreadState& thread, const Check& check, uint64_t part_field,
                   const PayloadCell& cell) {
  uint64_t fields[3 + format::kPayloadRows] = {check.communicator, check.sequence, part_field};
  for (uint32_t row = 0; row < format::kPayloadRows; ++row) {
    fields[3 + row] = format::packed(cell.rows[row]);
  }
  write_moment(thread, format::Moment::payloadSketch, clock_ticks(), check.device, check.stack,
               fields, std::size(fields));
}

void record(ThreadState& thread, const Check& check, uint64_t ticket) {
  for (uint32_t part = 0; check.way != Way::kNone && part < check.parts; ++part) {
    const PayloadCell cell = joined(check, ticket, part);
    const PayloadTally& tally = cell.tally;
    const uint64_t part_field = part | uint64_t{check.parts} << 32 | uint64_t{check.side} << 48;
    const uint64_t fields[] = {check.communicator,
                               check.sequence,
                               check.operation,
                               part_field,
                               check.data_type,
                               static_cast<uint64_t>(int64_t{check.reduction}),
                               static_cast<uint64_t>(int64_t{check.peer}),
                               check.count,
                               tally.nans,
                               tally.infinities,
                               bits_of(tally.largest),
                               bits_of(tally.sum),
                               bits_of(tally.absolute_sum),
                               bits_of(tally.square_sum),
                               tally.hash};
    write_moment(thread, format::Moment::payloadCheck, clock_ticks(), check.device, check.stack,
                 fields, std::size(fields));
    if (is_sketched(check)) {
      record_sketch(thread, check, part_field, cell);
    }
  }
}

}  // namespace

bool checks_record(ThreadState& thread) noexcept {
  if (g_checks.cells == nullptr) {
    return true;
  }
  if (!exchange_if(g_checks.recording, 0U, 1U)) {
    return false;
  }
  const uint64_t head = load(g_checks.head);
  uint64_t tail = g_checks.tail;
  for (uint64_t ticket = tail; ticket < head;) {
    Check& check = g_checks.ring[ticket % kCheckCells];
    if (load(check.ready) != ticket + 1) {
      break;  // another thread fills it in
    }
    const uint64_t next = ticket + check.cells;
    if (!check.recorded && is_done(check, ticket)) {
      record(thread, check, ticket);
      check.recorded = true;
    }
    tail = tail == ticket && check.recorded ? next : tail;
    ticket = next;
  }
  publish(g_checks.tail, tail);
  publish(g_checks.recording, 0U);
  return true;
}

void checks_exit() noexcept {
  ThreadState* const thread = checks_are_on() ? thread_to_record(false) : nullptr;
  InsideMark mark = {};
  if (thread != nullptr && enter_tracer_if_free(*thread, mark)) {
    const uint64_t began_ns = nanoseconds(CLOCK_MONOTONIC);
    while (!checks_record(*thread) && nanoseconds(CLOCK_MONOTONIC) - began_ns < kPatienceNs) {
      sched_yield();
    }
    leave_tracer(*thread);
  }
}

}  // namespace traintrace
