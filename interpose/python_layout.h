// Where the versions of CPython keep what is read of threads, frames and code objects.
//
// 3.13 and later publish offsets at the beginning of _PyRuntime (struct _Py_DebugOffsets, meant for
// debuggers); the earlier ones are in a table here.  All for 64-bit Linux.
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

// 3.13 and later: what the runtime at that address publishes, if it is of `version` (as in
// Py_Version) and looks as expected.  Reads cannot fault.
std::optional<PythonLayout> published_python_layout(uint64_t runtime, uint64_t version) noexcept;

}  // namespace traintrace
