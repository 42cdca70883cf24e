// What has been found out about the interpreter in this process.
#pragma once

#include "cpython/runtime.h"

namespace traintrace {

// Null until the layout has been proven; then it never changes.
const PythonRuntime* proven_python() noexcept;
// The same, for threads that run no Python: proves nothing by itself.
const PythonRuntime* known_python() noexcept;

// What is checked of a code object before a layout is believed.  Reads cannot fault.
bool looks_like_python_code(const PythonRuntime& python, uint64_t code) noexcept;

}  // namespace traintrace
