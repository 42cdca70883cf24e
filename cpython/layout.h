// Where the versions of CPython keep what is read of threads, frames and code objects.
//
// 3.13 and later publish offsets at the beginning of _PyRuntime (struct _Py_DebugOffsets, meant for
// debuggers); the earlier ones are in a table here.  All for 64-bit Linux.  Used from inside the
// process (interpose/) and from outside (analyzer/live/).
#pragma once

#include <cstdint>
#include <optional>

namespace traintrace {

// Offsets in bytes, as all below.
struct PythonObjectLayout {
  uint16_t type;        // PyObject
  uint16_t size;        // PyVarObject: of bytes and of code
  uint16_t bytes_data;  // PyBytesObject
  uint16_t text_length;
  uint16_t text_state;
  uint16_t text_ascii_data;  // where the characters of compact strings begin
  uint16_t text_other_data;
};

struct PythonLayout {
  static constexpr uint16_t kNone = 0xffff;

  uint8_t minor;
  uint8_t instruction_unit;  // of a frame's f_lasti; 0: the frame has a pointer into the bytecode

  uint32_t runtime_finalizing;  // _PyRuntimeState, the thread state that finalises or null
  // Where the lists of interpreters and of an interpreter's threads begin: 0 where not published.
  uint32_t runtime_interpreters;
  uint32_t interpreter_threads;

  uint16_t thread_id;     // PyThreadState
  uint16_t thread_frame;  // the frame, or the _PyCFrame that leads to it
  uint16_t cframe_frame;  // _PyCFrame, kNone: there is none
  uint16_t frame_type;    // kNone: frames are no objects
  uint16_t frame_previous;
  uint16_t frame_code;
  uint16_t frame_instruction;
  uint16_t frame_owner;     // kNone: all are frames of bytecode
  uint16_t frame_bytecode;  // index of the thread's own copy of the bytecode, kNone: no copies
  uint16_t code_first_line;
  uint16_t code_file;
  uint16_t code_name;
  uint16_t code_line_table;
  uint16_t code_version;   // another one for each code object, 0: they ran out; kNone before 3.12
  uint16_t code_bytecode;  // the first instruction; kNone where the instruction is an offset
  uint16_t code_bytecode_copies;  // array of a size and pointers
  PythonObjectLayout object;
};

// 3.9 to 3.12; nothing for others.
std::optional<PythonLayout> known_python_layout(int minor) noexcept;

// What 3.13 and later have at the beginning of _PyRuntime.
struct PublishedPythonTable {
  uint64_t words[80];
};

// What the table says, if it is of `version` (as in Py_Version) and looks as expected.
std::optional<PythonLayout> published_python_layout(const PublishedPythonTable& table,
                                                    uint64_t version) noexcept;

// The layout of `version`, if there is one for it.  `memory` reads the process.
template <class Memory>
std::optional<PythonLayout> python_layout(Memory& memory, uint64_t runtime,
                                          uint64_t version) noexcept {
  constexpr uint64_t kReleaseLevel = 0xf0;
  constexpr uint64_t kFirstCandidate = 0xc0;  // alphas and betas: anybody's guess
  constexpr uint64_t kNewest = 14;
  const uint64_t minor = version >> 16 & 0xff;
  if (version >> 24 != 3 || minor > kNewest || (version & kReleaseLevel) < kFirstCandidate) {
    return std::nullopt;
  }
  if (minor < 13) {
    return known_python_layout(static_cast<int>(minor));
  }
  PublishedPythonTable table;
  return runtime % 8 == 0 && memory.load(runtime, table) ? published_python_layout(table, version)
                                                         : std::nullopt;
}

}  // namespace traintrace
