// Where in a table that is never evicted the element of a key lies, without a lock.
//
// Element i of the table belongs to the key in place i here.  Searches do not end at a free place
// (handle_map.h says why) but at the longest way that was ever needed.  The table grows by steps,
// each a hash table of its own (layout.h): what is in an older one stays there.
#pragma once

#include <algorithm>

#include "interpose/record/growth.h"
#include "interpose/record/layout.h"
#include "interpose/tables/tables.h"

namespace traintrace {

class LiveIndex {
 public:
  static constexpr uint32_t kNone = ~0U;

  // `ready`: elements that the table begins with, its first step or fewer, where it has no more.
  void start(uint64_t ready) noexcept {
    drop();
    add_step(static_cast<uint32_t>(std::min<uint64_t>(ready, kFirstTableStep)));
  }
  void drop() noexcept { *this = LiveIndex{}; }

  // One step more, whose elements are ready.  By one thread at a time.  False: no memory, or the
  // table has no more steps.
  bool grow() noexcept { return steps_ < kMostTableSteps && add_step(elements_of_step(steps_)); }
  uint32_t steps() const noexcept { return load(steps_); }

  // `key` is not 0.  Young elements are asked for most, and lie in the last step.
  uint32_t find(uint64_t key) const noexcept {
    for (uint32_t step = load(steps_); step-- > 0;) {
      const uint32_t place = step_[step].find(key);
      if (place != kNone) {
        return place + step_[step].first;
      }
    }
    return kNone;
  }

  struct Taken {
    uint32_t index;  // kNone: there is no room
    bool is_full;    // nearly: the table should grow
  };
  // The key's place, which it has already where its end was not seen.
  Taken take(uint64_t key) noexcept {
    const uint32_t known = find(key);
    if (known != kNone) {
      return {known, false};
    }
    const uint32_t last = load(steps_);
    for (uint32_t step = last; step-- > 0;) {
      uint32_t way = 0;
      const uint32_t place = step_[step].take(key, way);
      if (place != kNone) {
        return {place + step_[step].first, step + 1 < last || way >= kLongWay};
      }
    }
    return {kNone, true};
  }

  // As `take`.  The own thread is asked for growth early; who still finds no room helps itself.
  Taken take_or_grow(uint64_t key, Growing what) noexcept {
    Taken taken = take(key);
    if (taken.is_full) [[unlikely]] {
      ask_for_growth(what);
      if (taken.index == kNone && help_to_grow(what)) {
        taken = take(key);
      }
    }
    return taken;
  }

  // After the element says that it is free.
  void give_back(uint32_t index) noexcept {
    for (uint32_t step = load(steps_); step-- > 0;) {
      if (index >= step_[step].first) {
        publish(step_[step].keys[index - step_[step].first], uint64_t{0});
        return;
      }
    }
  }

 private:
  bool add_step(uint32_t count) noexcept {
    auto* const keys = private_block<uint64_t>(count);
    if (keys == nullptr) {
      return false;
    }
    step_[steps_] = {keys, count, elements_before_step(steps_), 0};
    publish(steps_, steps_ + 1);
    return true;
  }

  static constexpr uint32_t kLongestWay = 128;
  // Where places are taken at random, this is rare before three quarters are.
  static constexpr uint32_t kLongWay = 16;

  struct Step {
    uint64_t* keys;
    uint32_t count;
    uint32_t first;  // index of its first element
    uint32_t longest;

    uint32_t place(uint64_t key, uint32_t way) const noexcept {
      const uint32_t place = place_of(key, count) + way;
      return place < count ? place : place - count;
    }
    uint32_t find(uint64_t key) const noexcept {
      const uint32_t most = load(longest);
      for (uint32_t way = 0; way <= most; ++way) {
        const uint32_t at = place(key, way);
        if (load(keys[at]) == key) {
          return at;
        }
      }
      return kNone;
    }
    uint32_t take(uint64_t key, uint32_t& way) noexcept {
      for (way = 0; way < kLongestWay && way < count; ++way) {
        const uint32_t at = place(key, way);
        uint64_t& slot = keys[at];
        if (load(slot) == 0 && exchange_if(slot, uint64_t{0}, key)) {
          raise_to(longest, way);
          return at;
        }
      }
      return kNone;
    }
  };

  Step step_[kMostTableSteps] = {};
  uint32_t steps_ = 0;
};

}  // namespace traintrace
