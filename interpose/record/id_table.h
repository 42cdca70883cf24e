// Ids for what is known by a 64-bit hash, each given once, for ever, without a lock.
//
// The id is the place in the table, so whoever finds the hash knows the id at once, also while the
// thread that came first is still writing what the id stands for.
#pragma once

#include "interpose/tables/tables.h"

namespace traintrace {

class IdTable {
 public:
  void start(uint32_t count) noexcept {
    keys_ = private_array<uint64_t>(count);
    count_ = keys_ == nullptr ? 0 : count;
  }
  void drop() noexcept { *this = IdTable{}; }

  // 0: not known.  `key` is not 0.
  uint32_t find(uint64_t key) const noexcept {
    for (uint32_t way = 0; way < kLongestWay && way < count_; ++way) {
      const uint32_t index = index_at(key, way);
      const uint64_t there = load(keys_[index]);
      if (there == key || there == 0) {
        return there == 0 ? 0 : index + 1;
      }
    }
    return 0;
  }

  // The id, 0 if there is no room; `is_new` for the one caller that came first.
  uint32_t add(uint64_t key, bool& is_new) noexcept {
    is_new = false;
    for (uint32_t way = 0; way < kLongestWay && way < count_; ++way) {
      const uint32_t index = index_at(key, way);
      is_new = load(keys_[index]) == 0 && exchange_if(keys_[index], uint64_t{0}, key);
      if (is_new || load(keys_[index]) == key) {
        return index + 1;
      }
    }
    return 0;
  }

 private:
  static constexpr uint32_t kLongestWay = 64;

  uint32_t index_at(uint64_t key, uint32_t way) const noexcept {
    const uint32_t place = place_of(key, count_) + way;
    return place < count_ ? place : place - count_;
  }

  uint64_t* keys_ = nullptr;
  uint32_t count_ = 0;
};

}  // namespace traintrace
