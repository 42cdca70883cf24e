// What a walk over a thread's stack gives.  It is kept with the thread: the stack that a call is
// made on may be small (a coroutine's, or that of signal handlers).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpython/walk.h"
#include "format/trace_format.h"
#include "interpose/python/python_frames.h"

namespace traintrace {

// One more than is kept of each sort: that there are more is to be known.
struct StackFrames {
  static constexpr size_t kMostPython = 128;
  static constexpr size_t kMostNative = 64;

  size_t python_count;
  size_t native_count;
  PythonFrame python[kMostPython + 1];
  uint64_t keys[kMostPython];
  uint64_t native[kMostNative + 1];
  uint64_t native_hash;
  bool cut;
  // Of a stack that is seen for the first time.
  format::PythonFrame defined[kMostPython];
  PythonCode code;
};

}  // namespace traintrace
