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
