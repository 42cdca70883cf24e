#include "cpython/layout.h"

#include <cstring>

namespace traintrace {
namespace {

constexpr uint16_t kNone = PythonLayout::kNone;

// struct _object and its first users (Include/object.h, cpython/bytesobject.h,
// cpython/unicodeobject.h).  Characters follow PyASCIIObject or PyCompactUnicodeObject; 3.12
// dropped a pointer from each.
constexpr PythonObjectLayout objects(uint16_t header, bool before_3_12) {
  const auto ascii = static_cast<uint16_t>(header + (before_3_12 ? 32 : 24));
  return {.type = static_cast<uint16_t>(header - 8),
          .size = header,
          .bytes_data = static_cast<uint16_t>(header + 16),
          .text_length = header,
          .text_state = static_cast<uint16_t>(header + 16),
          .text_ascii_data = ascii,
          .text_other_data = static_cast<uint16_t>(ascii + (before_3_12 ? 24 : 16))};
}

// Frames are objects.  Include/cpython/pystate.h: struct _ts; cpython/frameobject.h: struct _frame;
// cpython/code.h: struct PyCodeObject; internal/pycore_runtime.h: struct pyruntimestate.
constexpr PythonLayout k39{.minor = 9,
                           .instruction_unit = 1,
                           .runtime_finalizing = 16,
                           .runtime_interpreters = 0,
                           .interpreter_threads = 0,
                           .thread_id = 176,
                           .thread_frame = 24,
                           .cframe_frame = kNone,
                           .frame_type = 8,
                           .frame_previous = 24,
                           .frame_code = 32,
                           .frame_instruction = 104,
                           .frame_owner = kNone,
                           .frame_bytecode = kNone,
                           .code_first_line = 40,
                           .code_file = 104,
                           .code_name = 112,
                           .code_line_table = 120,
                           .code_version = kNone,
                           .code_bytecode = kNone,
                           .code_bytecode_copies = kNone,
                           .object = objects(16, true)};

// As before, but f_stacktop gave way to f_stackdepth, and f_lasti counts instructions of 2 bytes.
constexpr PythonLayout k310 = [] {
  PythonLayout layout = k39;
  layout.minor = 10;
  layout.instruction_unit = 2;
  layout.frame_instruction = 96;
  return layout;
}();

// Include/cpython/pystate.h: struct _ts, struct _PyCFrame; internal/pycore_frame.h: struct
// _PyInterpreterFrame (f_code, previous, prev_instr, owner); cpython/code.h: _PyCode_DEF.
constexpr PythonLayout k311{.minor = 11,
                            .instruction_unit = 0,
                            .runtime_finalizing = 24,
                            .runtime_interpreters = 0,
                            .interpreter_threads = 0,
                            .thread_id = 152,
                            .thread_frame = 56,
                            .cframe_frame = 8,
                            .frame_type = kNone,
                            .frame_previous = 48,
                            .frame_code = 32,
                            .frame_instruction = 56,
                            .frame_owner = 69,
                            .frame_bytecode = kNone,
                            .code_first_line = 72,
                            .code_file = 112,
                            .code_name = 128,
                            .code_line_table = 136,
                            .code_version = kNone,
                            .code_bytecode = 184,
                            .code_bytecode_copies = kNone,
                            .object = objects(16, true)};

// The same headers as of 3.12.
constexpr PythonLayout k312 = [] {
  PythonLayout layout = k311;
  layout.minor = 12;
  layout.thread_id = 136;
  layout.cframe_frame = 0;
  layout.frame_previous = 8;
  layout.frame_code = 0;
  layout.frame_owner = 70;
  layout.code_first_line = 68;
  layout.code_version = 92;
  layout.code_bytecode = 192;
  layout.object = objects(16, false);
  return layout;
}();

// The published table: 64-bit words in groups, which only ever grew at their ends.  How long a
// group is differs between versions and even betas, so each is looked for where it may be and
// recognised by what must be in it (Include/internal/pycore_debug_offsets.h; pycore_runtime.h
// in 3.13).
constexpr size_t kVersion = 1;
constexpr size_t kFreeThreaded = 2;
constexpr size_t kRuntime = 3;      // size, finalizing, interpreters_head
constexpr size_t kInterpreter = 6;  // 13 words in 3.13, 16 in 3.14

// size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status
bool is_thread_group(const PublishedPythonTable& table, size_t at) {
  const uint64_t* word = table.words + at;
  return word[0] < 4096 && word[1] == 0 && word[2] == 8 && word[3] == 16 &&
         word[4] + 8 <= word[0] && word[4] % 8 == 0 && word[5] + 16 <= word[0] &&
         word[5] % 8 == 0 && word[6] == word[5] + 8;
}

// size, previous, executable, instr_ptr, localsplus, owner, (3.14:) stackpointer, tlbc_index
bool is_frame_group(const PublishedPythonTable& table, size_t at) {
  const uint64_t* word = table.words + at;
  return word[0] < 512 && word[1] == 8 && word[2] == 0 && word[3] % 8 == 0 && word[3] < word[4] &&
         word[4] + 8 == word[0] && word[5] < word[4];
}

// size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames,
// localspluskinds, co_code_adaptive, (3.14:) co_tlbc
bool is_code_group(const PublishedPythonTable& table, size_t at) {
  const uint64_t* word = table.words + at;
  return word[0] < 1024 && word[2] == word[1] + 8 && word[3] == word[2] + 8 &&
         word[4] == word[3] + 8 && word[5] < word[7] && word[7] < word[1] && word[7] % 8 == 0 &&
         word[7] >= 8 && word[9] < word[0] && word[9] > word[4];
}

// size, ob_type
bool is_object_group(const PublishedPythonTable& table, size_t at) {
  const uint64_t* word = table.words + at;
  return (word[0] == 16 || word[0] == 32) && word[1] == word[0] - 8;
}

// The first place in [begin, end] where the group is; 0: nowhere.
size_t find_group(const PublishedPythonTable& table, size_t begin, size_t end,
                  bool (*is_group)(const PublishedPythonTable&, size_t)) {
  for (size_t at = begin; at <= end; ++at) {
    if (is_group(table, at)) {
      return at;
    }
  }
  return 0;
}

std::optional<PythonLayout> read_table(const PublishedPythonTable& table) {
  const size_t thread = find_group(table, kInterpreter + 13, kInterpreter + 20, is_thread_group);
  const size_t frame = thread == 0 ? 0 : find_group(table, thread + 9, thread + 11, is_frame_group);
  const size_t code = frame == 0 ? 0 : find_group(table, frame + 6, frame + 9, is_code_group);
  const size_t object = code == 0 ? 0 : find_group(table, code + 10, code + 13, is_object_group);
  if (object == 0 || table.words[kRuntime + 1] >= table.words[kRuntime] ||
      table.words[kRuntime] > 1 << 24) {
    return std::nullopt;
  }
  const uint64_t* words = table.words;
  PythonLayout layout{};
  layout.minor = static_cast<uint8_t>(words[kVersion] >> 16);
  layout.instruction_unit = 0;
  layout.runtime_finalizing = static_cast<uint32_t>(words[kRuntime + 1]);
  layout.runtime_interpreters = static_cast<uint32_t>(words[kRuntime + 2]);
  layout.interpreter_threads = static_cast<uint32_t>(words[kInterpreter + 3]);
  const auto offset = [&](size_t index) { return static_cast<uint16_t>(words[index]); };
  layout.thread_frame = offset(thread + 4);
  layout.thread_id = offset(thread + 5);
  layout.cframe_frame = kNone;
  layout.frame_type = kNone;
  layout.frame_previous = offset(frame + 1);
  layout.frame_code = offset(frame + 2);
  layout.frame_instruction = offset(frame + 3);
  layout.frame_owner = offset(frame + 5);
  layout.code_file = offset(code + 1);
  layout.code_name = offset(code + 3);
  layout.code_line_table = offset(code + 4);
  layout.code_first_line = offset(code + 5);
  // Not published itself: the 32-bit word before co_localsplusnames (cpython/code.h, 3.12 to 3.14).
  layout.code_version = offset(code + 7) - 4;
  layout.code_bytecode = offset(code + 9);
  // Only free-threaded builds from 3.14 on run copies of the bytecode, one per thread.
  const bool copies = words[kFreeThreaded] != 0 && layout.minor >= 14;
  if (copies && (code - frame < 8 || object - code < 11)) {
    return std::nullopt;
  }
  layout.frame_bytecode = copies ? offset(frame + 7) : kNone;
  layout.code_bytecode_copies = copies ? offset(code + 10) : kNone;
  layout.object = objects(offset(object), false);
  return layout;
}

}  // namespace

std::optional<PythonLayout> known_python_layout(int minor) noexcept {
  switch (minor) {
    case 9:
      return k39;
    case 10:
      return k310;
    case 11:
      return k311;
    case 12:
      return k312;
    default:
      return std::nullopt;
  }
}

std::optional<PythonLayout> published_python_layout(const PublishedPythonTable& table,
                                                    uint64_t version) noexcept {
  if (std::memcmp(table.words, "xdebugpy", 8) != 0 || table.words[kVersion] != version ||
      table.words[kFreeThreaded] > 1) {
    return std::nullopt;
  }
  return read_table(table);
}

}  // namespace traintrace
