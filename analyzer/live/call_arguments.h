// Arguments of a call that a thread is inside, by the debug information of its caller: what the
// caller passes is a constant there, or is still in a register that the callee gives back.
#pragma once

#include <elfutils/libdwfl.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/live/stack_snapshot.h"

namespace traintrace {

struct LiveFrame {
  using Registers = std::array<std::optional<uint64_t>, kRegisters>;

  uint64_t address = 0;
  Registers registers;  // those that functions give back, as far as they could be restored
};

// "count=1024, type=float32": those that are numbers, by the names that calls.def gives them.
// Empty: none of them can be told.  `caller` lies in `module`.
std::string call_arguments(Dwfl_Module* module, const LiveFrame& caller,
                           const std::string& function);

}  // namespace traintrace
