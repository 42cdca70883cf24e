// What of a memory was ever written to or read by somebody.  The rest is there, but the kernel has
// not cleared it yet: to look at it would take time, and make it a page that is in use.
#pragma once

#include <cstdint>

namespace traintrace {

class Touched {
 public:
  // -1: it is not known, so all of it counts as touched.
  explicit Touched(int descriptor = -1) noexcept : descriptor_(descriptor) {}

  // The first byte from `offset` on that was touched, `end` where none is before it.  Of pages that
  // begin in `offset` it is the begin of one.
  uint64_t next(uint64_t offset, uint64_t end) noexcept;
  // The end of what was touched around `offset`, at most `end`.
  uint64_t end_of(uint64_t offset, uint64_t end) noexcept;

 private:
  int descriptor_;
  uint64_t begin_ = 0;  // of the part that was found last
  uint64_t end_ = 0;
};

}  // namespace traintrace
