// What has been found out about the interpreter in this process.
#pragma once

#include <cstdint>

#include "interpose/python_layout.h"

namespace traintrace {

struct PythonRuntime {
  PythonLayout layout;
  uint64_t runtime;  // _PyRuntime
  uint64_t code_type;
  uint64_t frame_type;
  uint64_t text_type;
  uint64_t bytes_type;
  void* (*this_thread_state)();
};

// Null until the layout has been proven; then it never changes.
const PythonRuntime* proven_python() noexcept;

// What is checked of a code object before a layout is believed.  Reads cannot fault.
bool looks_like_python_code(const PythonRuntime& python, uint64_t code) noexcept;

}  // namespace traintrace
