// Where in a table that is never evicted the element of a key lies, without a lock.
//
// Element i of the table belongs to the key in place i here.  Searches do not end at a free place
// (handle_map.h says why) but at the longest way that was ever needed.
#pragma once

#include "interpose/tables.h"

namespace traintrace {

class LiveIndex {
 public:
  static constexpr uint32_t kNone = ~0U;

  void start(uint32_t count) noexcept {
    keys_ = private_array<uint64_t>(count);
    count_ = keys_ == nullptr ? 0 : count;
    longest_ = 0;
  }
  void drop() noexcept { *this = LiveIndex{}; }

  // `key` is not 0.
  uint32_t find(uint64_t key) const noexcept {
    const uint32_t longest = load(longest_);
    for (uint32_t way = 0; way <= longest && way < count_; ++way) {
      const uint32_t index = index_at(key, way);
      if (load(keys_[index]) == key) {
        return index;
      }
    }
    return kNone;
  }

  // The key's place, which it has already where its end was not seen.
  uint32_t take(uint64_t key) noexcept {
    const uint32_t known = find(key);
    for (uint32_t way = 0; known == kNone && way < kLongestWay && way < count_; ++way) {
      const uint32_t index = index_at(key, way);
      if (load(keys_[index]) == 0 && exchange_if(keys_[index], uint64_t{0}, key)) {
        raise_to(longest_, way);
        return index;
      }
    }
    return known;
  }

  // After the element says that it is free.
  void give_back(uint32_t index) noexcept { publish(keys_[index], uint64_t{0}); }

 private:
  static constexpr uint32_t kLongestWay = 128;

  uint32_t index_at(uint64_t key, uint32_t way) const noexcept {
    const uint32_t place = place_of(key, count_) + way;
    return place < count_ ? place : place - count_;
  }

  uint64_t* keys_ = nullptr;
  uint32_t count_ = 0;
  uint32_t longest_ = 0;
};

}  // namespace traintrace
