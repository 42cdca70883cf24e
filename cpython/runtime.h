// One interpreter in one process: where its things are and how they are laid out.
#pragma once

#include <cstdint>

#include "cpython/layout.h"

namespace traintrace {

// Addresses in that process.
struct PythonRuntime {
  PythonLayout layout;
  uint64_t runtime;  // _PyRuntime
  uint64_t code_type;
  uint64_t frame_type;
  uint64_t text_type;
  uint64_t bytes_type;
};

}  // namespace traintrace
