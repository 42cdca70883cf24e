// From a handle of CUDA or NCCL to a number, without a lock.
//
// Handles come and go, and memory is fixed, so a slot is used again as soon as its handle is gone.
// That rules out ending a search at an empty slot; it ends at the longest way that any handle ever
// had to go from its place, which stays a few slots as long as the table is roomy.
//
// Costs: 3 ns for a hit, also for a miss in a table where no way was long.
#pragma once

#include "interpose/tables/tables.h"

namespace traintrace {

class HandleMap {
 public:
  // Room for `count` handles at a time; without memory the map stays empty.
  void start(uint32_t count) noexcept {
    slots_ = private_array<Slot>(count * size_t{kRoom});
    count_ = slots_ == nullptr ? 0 : count * kRoom;
    longest_ = 0;
  }
  void drop() noexcept { *this = HandleMap{}; }

  // 0: not there.
  uint64_t find(uint64_t key) const noexcept {
    const Slot* const slot = slot_of(key);
    if (slot == nullptr) {
      return 0;
    }
    const uint64_t value = load(slot->value);
    // The slot may have gone to another handle meanwhile.
    return load(slot->key) == key ? value : 0;
  }

  // Replaces what was there.  False if there is no room.  `key` and `value` are not 0.
  bool put(uint64_t key, uint64_t value) noexcept {
    if (Slot* const slot = slot_of(key)) {
      publish(slot->value, value);
      return true;
    }
    for (uint32_t way = 0; way < kLongestWay && way < count_; ++way) {
      Slot& slot = at(key, way);
      if (load(slot.key) == 0 && exchange_if(slot.key, uint64_t{0}, key)) {
        raise_to(longest_, way);
        publish(slot.value, value);
        return true;
      }
    }
    return false;
  }

  void erase(uint64_t key) noexcept {
    if (Slot* const slot = slot_of(key)) {
      publish(slot->value, uint64_t{0});  // so that the next owner starts without a value
      publish(slot->key, uint64_t{0});
    }
  }

 private:
  struct Slot {
    uint64_t key;  // 0: free
    uint64_t value;
  };
  static constexpr uint32_t kRoom = 4;
  static constexpr uint32_t kLongestWay = 64;

  Slot& at(uint64_t key, uint32_t way) const noexcept {
    const uint32_t place = place_of(key, count_) + way;
    return slots_[place < count_ ? place : place - count_];
  }
  Slot* slot_of(uint64_t key) const noexcept {
    if (count_ == 0) {
      return nullptr;
    }
    const uint32_t longest = load(longest_);
    for (uint32_t way = 0; way <= longest; ++way) {
      Slot& slot = at(key, way);
      if (load(slot.key) == key) {
        return &slot;
      }
    }
    return nullptr;
  }

  Slot* slots_ = nullptr;
  uint32_t count_ = 0;
  uint32_t longest_ = 0;
};

}  // namespace traintrace
