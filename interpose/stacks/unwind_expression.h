// DWARF expressions as they appear in unwind tables, as far as compilers and the C library use them
// for the registers that are followed: a frame that aligned its stack, a stub of the procedure
// linkage table, a signal's frame.
#pragma once

#include <cstdint>

#include "interpose/stacks/unwind_bytes.h"

namespace traintrace {

// base + offset, or what lies in memory there.
struct UnwindPlace {
  enum class Base : uint8_t { kUnknown, kNumber, kSp, kFp, kCfa };
  Base base = Base::kUnknown;
  bool in_memory = false;
  int64_t offset = 0;
};

// The value of `expression` at instruction `pc`.  `with_cfa`: the CFA is on the stack at the start,
// as the rules of registers have it.  kUnknown for whatever is not understood.
UnwindPlace evaluate_expression(UnwindBytes expression, uint64_t pc, bool with_cfa) noexcept;

}  // namespace traintrace
