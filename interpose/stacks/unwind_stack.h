// Which memory around a frame may be read: a walk never touches what is not known to be there.
//
// A thread's own stack is mapped from any of its frames up to its outermost one, and stays so while
// the thread lives.  That range is found out once per thread (and again when the stack gets deeper
// than before), by asking the kernel page by page.  Any other stack - of a coroutine, of a signal
// handler - may be gone the next time, so there each walk asks about each page.
#pragma once

#include <cstdint>

namespace traintrace {

// Readable are the addresses in [low, high).
struct StackRange {
  uint64_t low;
  uint64_t high;
  bool whole;  // the rest of this stack is inside; else it may be worth asking for more
  bool holds_word(uint64_t address) const noexcept { return address - low <= high - low - 8; }
};

// The calling thread's own stack, as far as it is known: readable from `low` to `high`.
struct OwnStack {
  uint64_t low;
  uint64_t high;
  uint8_t failures;  // of attempts to learn more; coroutines must not make every walk try again
};
extern constinit thread_local OwnStack t_own_stack;

// Whether a word that some frame of this thread held can be read still: the stack of a coroutine,
// or of signal handlers, may be gone.  Asks the kernel about those.
bool is_there_still(uint64_t address) noexcept;
[[gnu::always_inline]] inline bool may_read_frame(const void* frame) noexcept {
  const auto address = reinterpret_cast<uint64_t>(frame);
  const OwnStack& own = t_own_stack;
  return (address >= own.low && address < own.high) || is_there_still(address);
}

// What may be read by a walk over the calling thread's stack that begins at `address`.  At
// least one page; whether that can be read is asked unless `mapped` says that it is known.
bool stack_around(uint64_t address, bool mapped, StackRange& range) noexcept;

// Extends the range of a foreign stack to the word at `address`.  Asks the kernel.
bool extend_to(StackRange& range, uint64_t address) noexcept;

// Asks the kernel whether the page that holds `address` can be read.  Never faults.
bool is_readable(uint64_t address) noexcept;

// How often the kernel was asked, in this process.
uint64_t stack_probes() noexcept;

}  // namespace traintrace
