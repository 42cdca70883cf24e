// What a thread's last walks over its native stack read.  A walk is decided by where it starts and
// by the words it reads: where all of them are as they were, so are the frames, and the hash is
// known without a walk.  20 frames take some 20 independent loads this way; the walk, where each
// address depends on the one before, takes ten times as long.
//
// What must hold: a remembered walk stayed on the thread's own stack, which is mapped as long as
// the thread lives, and followed ordinary rules only, and rules are the same as long as the
// generation is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace {

class NativeMemo {
  static constexpr uint32_t kMaxReads = 100;  // 64 frames, half of which are found by fp
  static constexpr uint32_t kAtOnce = 4;
  static_assert(kMaxReads % kAtOnce == 0);

  // Of the words only a sum is kept, so that many walks fit into the processor's cache.  Keys
  // without pattern: words of a stack differ little, and must not make up for one another.
  struct Keys {
    uint64_t key[kMaxReads];
    constexpr Keys() : key{} {
      uint64_t state = 0;
      for (uint64_t& made : key) {  // splitmix64
        state += 0x9E3779B97F4A7C15;
        made = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
        made = (made ^ (made >> 27)) * 0x94D049BB133111EB;
        made = (made ^ (made >> 31)) | 1;
      }
    }
  };
  static const Keys kKeys;

 public:
  class Walk {
   public:
    void begin(uint64_t frame, uint64_t generation) noexcept {
      life_ = kNoLife;  // until it ends: a walk may be left for good
      frame_ = frame;
      generation_ = generation;
      sum_ = 0;
      reads_ = 0;
    }
    void add(uint64_t address, uint64_t value) noexcept {
      const uint64_t words = (address - frame_) / sizeof(uint64_t);
      if (reads_ >= kMaxReads || words > UINT16_MAX || (address & 7) != 0) {
        reads_ = kTooMany;
        return;
      }
      word_[reads_] = static_cast<uint16_t>(words);
      first_ = reads_ == 0 ? value : first_;
      sum_ += value * kKeys.key[reads_];
      ++reads_;
    }
    // Of a walk that cannot be told by what it read.
    void forget() noexcept {
      frame_ = 0;
      reads_ = kTooMany;
    }
    void end(uint64_t hash, uint32_t life) noexcept {
      while (reads_ != kTooMany && reads_ % kAtOnce != 0) {  // the first one again
        word_[reads_] = word_[0];
        sum_ += first_ * kKeys.key[reads_];
        ++reads_;
      }
      if (reads_ == kTooMany) {
        frame_ = 0;
      }
      hash_ = hash;
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      life_ = life;
    }
    bool holds(uint64_t frame, uint64_t generation, uint32_t life) const noexcept;
    uint64_t hash() const noexcept { return hash_; }

   private:
    static constexpr uint32_t kTooMany = UINT32_MAX;
    static constexpr uint32_t kNoLife = 0;  // of no thread: clear() was called before

    uint64_t frame_;  // 0: nothing is remembered here
    uint64_t generation_;
    uint64_t hash_;
    uint64_t sum_;
    uint64_t first_;  // value that was read
    uint32_t life_;
    uint32_t reads_;
    uint16_t word_[kMaxReads];  // counted from the frame
  };

  // The walk from there that still holds, or nullptr.
  const Walk* find(uint64_t frame, uint64_t caller, uint64_t generation) const noexcept {
    const Walk* const set = walks_ + set_of(frame, caller);
    for (uint32_t way = 0; way < kWays; ++way) {
      if (set[way].holds(frame, generation, life_)) {
        return &set[way];
      }
    }
    return nullptr;
  }
  // Where the next one from there may be remembered.  The oldest of its set is lost.
  Walk& replace(uint64_t frame, uint64_t caller) noexcept {
    return walks_[set_of(frame, caller) + next_way_++ % kWays];
  }
  uint32_t life() const noexcept { return life_; }
  // For a new thread, whose stack is another.  Touches no walk: most threads need few.
  void clear() noexcept { ++life_; }

 private:
  // A step of PyTorch has some 150 different stacks per thread.  Many lead to the same function at
  // the same place.
  static constexpr uint32_t kSetBits = 6, kWays = 4;
  static uint32_t set_of(uint64_t frame, uint64_t caller) noexcept {
    constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
    return static_cast<uint32_t>(((frame ^ caller) * kMix) >> (64 - kSetBits)) * kWays;
  }

  uint32_t life_;  // walks of another one do not hold
  uint32_t next_way_;
  Walk walks_[kWays << kSetBits];
};

inline constexpr NativeMemo::Keys NativeMemo::kKeys;

// Sanitizers' red zones are memory like any other here.
__attribute__((no_sanitize("address", "thread", "alignment"))) inline bool NativeMemo::Walk::holds(
    uint64_t frame, uint64_t generation, uint32_t life) const noexcept {
  if (frame_ != frame || generation_ != generation || life_ != life) {
    return false;
  }
  const auto* const words = reinterpret_cast<const uint64_t*>(frame);
  static_assert(kAtOnce == 4);
  uint64_t a = 0;
  uint64_t b = 0;
  const auto read = [&](uint32_t i) __attribute__((no_sanitize("address", "thread", "alignment"))) {
    return __atomic_load_n(words + word_[i], __ATOMIC_RELAXED) * kKeys.key[i];
  };
  for (uint32_t i = 0, end = reads_; i < end; i += kAtOnce) {
    a += read(i) + read(i + 1);
    b += read(i + 2) + read(i + 3);
  }
  return a + b == sum_;
}

}  // namespace traintrace
