// The Python frames of the calling thread, read from inside a C call that it makes.
//
// While a thread is in our code it runs no bytecode, so its own frame chain stands still: it is
// read in place, without the GIL, and nothing is asked of CPython but which thread state is ours
// (PyGILState_GetThisThreadState, which reads thread-local storage and is documented to need no
// GIL).  Reading in place needs to know where CPython keeps things: see cpython/layout.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpython/walk.h"

namespace traintrace {

class CodeMemo;

// Innermost first.  0 where this thread runs no Python, or where it is not known how to read it.
// No allocation, lock or GIL; no system call either, but for the first frames ever seen (see
// find_python), and never a fault: what does not look as expected ends the walk.
size_t python_frames(PythonFrame* out, size_t max) noexcept;

// How symbols of the job are looked up, and how the library of one is kept: a program that embeds
// Python may close it, and it is asked at each call.  To be set before find_python.
void set_python_lookup(void* (*lookup)(const char* name),
                       void (*keep)(const void* symbol) = nullptr) noexcept;

// Cold.  True once an interpreter is there whose layout is known.  To be called again when modules
// have been loaded; costs nothing once it was true.  The layout is believed only after it has been
// checked against the frames of a running thread, by reads that cannot fault.
bool find_python() noexcept;

// What must be remembered of a code object, since it may be gone tomorrow.
struct PythonCode {
  uint32_t qualname_bytes;
  uint32_t file_bytes;
  char qualname[256];  // UTF-8, NUL-terminated; cut at its end.  3.9 and 3.10 know the bare name
                       // only
  char file[1024];     // UTF-8, NUL-terminated; cut at its beginning, which then is "..."
  int32_t first_line;
  uint8_t minor;              // of CPython 3.minor: says how to read the line table
  const uint8_t* line_table;  // inside Python's memory: copy it while the code object lives
  size_t line_table_bytes;
};

// Cold.  For a code object on the calling thread's own stack.  False if it does not look like one.
bool describe_python_code(uint64_t code, PythonCode& into) noexcept;

// Tells a code object from a later one at the same address: generated code is born and dies all the
// time, and its parts are handed out again at the same addresses too.  CPython numbers code objects
// from 3.12 on; before, parts of the text and of the line table count as well.  For a code object
// on the calling thread's own stack; never 0.
uint64_t python_code_key(uint64_t code) noexcept;
// The same of `count` frames, mostly faster.
void python_code_keys(const PythonFrame* frames, size_t count, CodeMemo& memo,
                      uint64_t* keys) noexcept;

}  // namespace traintrace
