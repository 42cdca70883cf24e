#include "interpose/tables/failures.h"

#include <time.h>

#include "format/schema.h"
#include "interpose/record/clock.h"
#include "interpose/record/growth.h"
#include "interpose/record/stats.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

// A program that tries smaller and smaller sizes shall not pay for a copy each time.
constexpr uint64_t kCopyEveryNs = 100'000'000;
constexpr uint64_t kFreed = 1;  // first word of a reusable element of kAllocations

// Three words that belong together, without a lock: `ticks` is stored last, and 0 meanwhile.
struct Told {
  uint64_t ticks;
  uint64_t free;
  uint64_t total;
};
// The last one: of threads whose device is not known.
constexpr uint32_t kUnknownDevice = 128;
Told g_told[kUnknownDevice + 1];
uint32_t g_sort_counts[2];
uint32_t g_count;
uint64_t g_copied_ns;
bool g_copying;

uint32_t place_of_device(uint8_t device) {
  return device < kUnknownDevice ? device : kUnknownDevice;
}

Told told_of(uint32_t place) {
  const uint64_t ticks = load(g_told[place].ticks);
  const Told told = {ticks, load(g_told[place].free), load(g_told[place].total)};
  return load(g_told[place].ticks) == ticks ? told : Told{};
}

Told told_before(const ThreadState& thread, uint8_t device) {
  const Told told = told_of(place_of_device(device));
  return told.ticks == 0 && thread.device == format::kNoDevice ? told_of(kUnknownDevice) : told;
}

// Null: the table is not there.
format::OutOfMemory* take_place(FailureSort sort) {
  constexpr uint32_t kPerSort = format::kFirstFailures + format::kLastFailures;
  const auto index = static_cast<uint32_t>(sort);
  const uint32_t n = fetch_add(g_sort_counts[index], 1U);
  if (n >= kPerSort) {
    count(format::Stat::FailuresReplaced);
  }
  const uint32_t place =
      n < kPerSort ? n
                   : format::kFirstFailures + (n - format::kFirstFailures) % format::kLastFailures;
  const uint32_t at = index * kPerSort + place;
  return at < g_tables.failure_count ? &g_tables.failures[at] : nullptr;
}

class Copy {
 public:
  static constexpr uint16_t kReport = format::id_of(format::Moment::reportMemoryUsageToProfiler);

  explicit Copy(uint32_t number) : number_(number) {}

  void add_allocations() {
    const uint64_t count =
        ready_bytes(g_tables.file, format::kAllocations) / sizeof(format::Allocation);
    for (uint64_t i = 0; i < count; ++i) {
      const format::Allocation& from = g_tables.allocations[i];
      add(from.address, from.bytes, from.stack, load(from.call), from.device);
    }
  }
  void add_tensors() {
    const uint64_t count =
        ready_bytes(g_tables.file, format::kTensorBlocks) / sizeof(format::TensorBlock);
    for (uint64_t i = 0; i < count; ++i) {
      const format::TensorBlock& from = g_tables.tensor_blocks[i];
      add(from.address, from.bytes, from.stack, kReport, from.device);
    }
  }
  uint32_t held() const { return held_; }
  uint32_t not_held() const { return not_held_; }

 private:
  // Other threads allocate meanwhile.
  void add(const uint64_t& guard, const uint64_t& bytes, const uint32_t& stack, uint16_t call,
           const uint8_t& device) {
    const uint64_t address = load(guard);
    const bool is_freed = call == kReport ? (address & 1) != 0 : address == kFreed;
    if (address == 0 || is_freed) {
      return;
    }
    const format::HeldBlock block = {address, load(bytes),  load(stack), number_,
                                     call,    load(device), {}};
    if (load(guard) != address) {
      return;
    }
    if (held_ == g_tables.held_block_count) {
      ++not_held_;
      return;
    }
    replace(g_tables.held_blocks[held_++], block);
  }

  uint32_t number_;
  uint32_t held_ = 0;
  uint32_t not_held_ = 0;
};

void copy_live(format::OutOfMemory& failure, FailureSort sort, uint32_t number) {
  const uint64_t now_ns = nanoseconds(CLOCK_MONOTONIC);
  const uint64_t last_ns = load(g_copied_ns);
  const bool soon = last_ns != 0 && now_ns - last_ns < kCopyEveryNs;
  if ((sort == FailureSort::kCall && soon) ||
      __atomic_exchange_n(&g_copying, true, __ATOMIC_ACQ_REL)) {
    return;
  }
  Copy copy(number);
  copy.add_allocations();
  copy.add_tensors();
  publish(failure.not_held, copy.not_held());
  publish(failure.held, copy.held());
  publish(g_copied_ns, now_ns);
  publish(g_copying, false);
}

}  // namespace

void memory_ran_out(ThreadState& thread, FailureSort sort, const Failure& failure) noexcept {
  format::OutOfMemory* const into = take_place(sort);
  if (into == nullptr) {
    return;
  }
  const uint32_t number = fetch_add(g_count, 1U) + 1;
  const Told told = told_before(thread, failure.device);
  replace(*into, {failure.ticks, failure.bytes, failure.allocated, failure.reserved, told.free,
                  told.total, told.ticks, number, failure.stack, failure.call, failure.device, 0,
                  failure.result, 0, 0});
  copy_live(*into, sort, number);
}

void memory_asked(const ThreadState& thread, uint64_t free, uint64_t total,
                  uint64_t ticks) noexcept {
  replace(g_told[place_of_device(thread.device)], {ticks, free, total});
}

void failures_start() noexcept {
  for (Told& told : g_told) {
    told = {};
  }
  g_sort_counts[0] = g_sort_counts[1] = g_count = 0;
  g_copied_ns = 0;
  g_copying = false;
}

}  // namespace traintrace
