// What a thread's last walks over its native stack read.  A walk is decided by where it starts and
// by the words it reads: where all of them are as they were, so are the frames, and the hash is
// known without a walk.  20 frames take 20 to 40 independent loads this way; the walk, where each
// address depends on the one before, takes ten times as long.
//
// What must hold: a remembered walk stayed on the thread's own stack and followed ordinary rules
// only, and rules are the same as long as the generation is.  Then each word is read only after
// those before it have led there again, so nothing is read that the walk itself would not read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace {

class NativeMemo {
 public:
  struct Read {
    uint64_t address;
    uint64_t value;
  };

  class Walk {
   public:
    void begin(uint64_t frame, uint64_t generation) noexcept {
      frame_ = frame;
      generation_ = generation;
      reads_ = 0;
    }
    void add(uint64_t address, uint64_t value) noexcept {
      if (reads_ < kMaxReads) {
        read_[reads_] = {address, value};
      }
      ++reads_;
    }
    // Of a walk that cannot be told by what it read.
    void forget() noexcept { frame_ = 0; }
    void end(uint64_t hash) noexcept {
      if (reads_ > kMaxReads) {
        frame_ = 0;
      }
      hash_ = hash;
    }
    bool holds(uint64_t frame, uint64_t generation) const noexcept;
    uint64_t hash() const noexcept { return hash_; }

   private:
    static constexpr uint32_t kMaxReads = 100;  // 64 frames, half of which save rbp

    uint64_t frame_;  // 0: nothing is remembered here
    uint64_t generation_;
    uint64_t hash_;
    uint32_t reads_;
    Read read_[kMaxReads];
  };

  // Where a walk from there is remembered: by place and caller, so that the call sites of a loop
  // do not drive each other out.
  Walk& of(uint64_t frame, uint64_t caller) noexcept {
    constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
    return walks_[((frame ^ caller) * kMix) >> (64 - kBits)];
  }
  void clear() noexcept {
    for (Walk& walk : walks_) {
      walk.forget();
    }
  }

 private:
  static constexpr int kBits = 4;
  Walk walks_[1 << kBits];
};

// Sanitizers' red zones are memory like any other here.
__attribute__((no_sanitize("address", "thread", "alignment"))) inline bool NativeMemo::Walk::holds(
    uint64_t frame, uint64_t generation) const noexcept {
  if (frame_ != frame || generation_ != generation) {
    return false;
  }
  for (uint32_t i = 0; i < reads_; ++i) {
    if (*reinterpret_cast<const volatile uint64_t*>(read_[i].address) != read_[i].value) {
      return false;
    }
  }
  return true;
}

}  // namespace traintrace
