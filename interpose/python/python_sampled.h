// The Python frames of another thread of this process, which runs meanwhile.
//
// Nothing is stopped and no lock or GIL is taken: memory is copied by the kernel, so that what goes
// away under the walk cannot fault; two walks must agree; and what does not look as expected is no
// frame.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/python/python_frames.h"
#include "interpose/python/python_memory.h"

namespace traintrace {

// As Python names it.
struct PythonThread {
  uint64_t state = 0;   // 0: it runs no Python, or none that is known
  uint64_t thread = 0;  // pthread_self
};

// Of the calling thread; some ns.
PythonThread this_python_thread() noexcept;

// Innermost first.  Frames that came or went between two walks are left out: what is given is what
// they have in common, from the outermost on.
size_t sampled_frames(const PythonThread& thread, CopiedMemory& memory, PythonFrame* out,
                      size_t max) noexcept;

// As python_code_key, which is the same for the same code; 0: not readable any more.
uint64_t sampled_code_key(uint64_t code, CopiedMemory& memory) noexcept;

// What a description points into.
struct SampledText {
  uint8_t name[4096];
  uint8_t file[4096];
  uint8_t lines[8192];
};
// False where it does not look like code, or has names too long to be copied.
bool describe_sampled_code(uint64_t code, CopiedMemory& memory, SampledText& text,
                           PythonCode& into) noexcept;

}  // namespace traintrace
