// Rules of the code seen so far: a set-associative table, shared by all threads without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "interpose/stacks/unwind_rule.h"

namespace traintrace {

class UnwindCache {
 public:
  // A rule that was found, and its place, which leads to the rule of the next address.
  struct Found {
    UnwindRule rule;
    uint32_t row;
  };

  // Rules put under one generation are not found under another.  Sixteen bits of it count.
  bool find(uint64_t pc, uint64_t generation, Found& found) const noexcept {
    const uint32_t set = set_of(pc);
    for (uint32_t way = 0; way < kWays; ++way) {
      if (holds(set + way, pc, generation, found)) {
        return true;
      }
    }
    return false;
  }

  // The same for what follows on `found` on a stack.  Most functions have one caller, or had the
  // same one last time: where that is so, the processor need not know the address to get at its
  // rule.
  bool find_next(uint64_t pc, uint64_t generation, Found& found) noexcept {
    std::atomic<uint32_t>& next = rows_[found.row].next;
    const uint32_t expected = next.load(std::memory_order_relaxed);
    if (__builtin_expect(holds(expected, pc, generation, found), 1)) {
      return true;
    }
    if (!find(pc, generation, found)) {
      return false;
    }
    // Of several callers the first one stays: threads must not fight for the cache line.
    if (expected == 0) {
      next.store(found.row, std::memory_order_relaxed);
    }
    return true;
  }

  void put(uint64_t pc, uint64_t generation, UnwindRule rule, Found& found) noexcept {
    const uint64_t bits = rule.bits();
    const uint32_t way = next_way_.fetch_add(1, std::memory_order_relaxed) % kWays;
    found = {rule, set_of(pc) + way};
    Row& row = rows_[found.row];
    row.next.store(0, std::memory_order_relaxed);
    row.rule.store(bits, std::memory_order_relaxed);
    row.check.store(check_of(pc, generation, bits), std::memory_order_relaxed);
  }

 private:
  // The check holds key and rule together: a row that another thread is half through with writing
  // belongs to nobody.
  struct alignas(32) Row {
    std::atomic<uint64_t> check;
    std::atomic<uint64_t> rule;
    std::atomic<uint32_t> next;  // a row, only ever a guess
  };
  static constexpr uint32_t kWays = 4;
  static constexpr uint32_t kSetBits = 12;
  static constexpr uint64_t kMix = 0x9E3779B97F4A7C15;

  // The product keeps a rule torn in two from being taken for whole just because addresses and
  // rules differ alike.  An unused row, all zero, is that of address 0.
  static uint64_t check_of(uint64_t pc, uint64_t generation, uint64_t rule) noexcept {
    return pc ^ (generation << 48) ^ (rule * kMix);
  }
  static uint32_t set_of(uint64_t pc) noexcept {
    return static_cast<uint32_t>((pc * kMix) >> (64 - kSetBits)) * kWays;
  }
  bool holds(uint32_t row, uint64_t pc, uint64_t generation, Found& found) const noexcept {
    const uint64_t bits = rows_[row].rule.load(std::memory_order_relaxed);
    if (rows_[row].check.load(std::memory_order_relaxed) != check_of(pc, generation, bits)) {
      return false;
    }
    found = {UnwindRule::from_bits(bits), row};
    return true;
  }

  Row rows_[kWays << kSetBits];
  std::atomic<uint32_t> next_way_;
};

}  // namespace traintrace
