// What a thread polls.  The first query of an object after a call of another sort is recorded, and
// so is the one that says it is over; the others only count.  Threads ask many objects in turn
// (PyTorch's watchdog: two events of each collective under way, and each communicator), so what was
// asked is looked up by function and object.
#pragma once

#include <cstdint>

namespace traintrace {

class Polls {
 public:
  struct Entry {
    uint64_t key;  // of the function, in the row of polls that it was recorded in
    uint64_t object;
    int32_t outcome;  // of the query that was recorded last
    uint32_t stack;   // and where it was made
  };

  // Null: to be recorded.
  Entry* find(uint16_t call, uint64_t object) noexcept {
    Entry* const set = set_of(call, object);
    const uint64_t key = key_of(call);
    for (uint32_t way = 0; way < kWays; ++way) {
      if (set[way].object == object && set[way].key == key) {
        return &set[way];
      }
    }
    return nullptr;
  }

  // It was recorded: those that follow will be found.  The oldest of its set is forgotten.
  Entry* add(uint16_t call, uint64_t object, uint32_t stack) noexcept {
    Entry* const set = set_of(call, object);
    for (uint32_t way = kWays - 1; way > 0; --way) {
      set[way] = set[way - 1];
    }
    set[0] = {key_of(call), object, kNone, stack};
    return set;
  }

  // A call of another sort was recorded: what is polled after it is recorded first.
  void end_row() noexcept { ++row_; }
  // True for the first query of a row.
  bool begin_row() noexcept {
    const bool is_first = begun_ != row_ + 1;
    begun_ = row_ + 1;
    return is_first;
  }

  static constexpr int32_t kNone = INT32_MIN;

 private:
  static constexpr uint32_t kSetBits = 6, kWays = 8;

  uint64_t key_of(uint16_t call) const noexcept { return (row_ + 1) << 16 | call; }
  Entry* set_of(uint16_t call, uint64_t object) noexcept {
    constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
    return entries_[((object >> 3 ^ call) * kMix) >> (64 - kSetBits)];
  }

  uint64_t row_;
  uint64_t begun_;
  Entry entries_[1U << kSetBits][kWays];
};

}  // namespace traintrace
