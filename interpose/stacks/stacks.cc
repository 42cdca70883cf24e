#include "interpose/stacks/stacks.h"

#include "format/hashes.h"
#include "interpose/base/undisturbed.h"
#include "interpose/python/host_samples.h"
#include "interpose/python/python_frames.h"
#include "interpose/python/python_sampled.h"
#include "interpose/record/definitions.h"
#include "interpose/record/id_table.h"
#include "interpose/record/stats.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/native_frames.h"
#include "interpose/stacks/stack_frames.h"
#include "interpose/tables/state.h"

namespace traintrace {
namespace {

constexpr size_t kPythonFrames = StackFrames::kMostPython;
constexpr size_t kNativeFrames = StackFrames::kMostNative;
constexpr uint32_t kMostStacks = 1U << 16;
constexpr uint32_t kMostCodes = 1U << 15;
constexpr size_t kMostLineTable = 8192;

IdTable g_stacks;
IdTable g_codes;
uint64_t g_python_sought;  // modules_version() + 1 when Python was looked for last
bool g_full;               // there is an unknown stack that found no room

// `hash_is_enough`: native frames are left out where their hash is remembered.
void walk(StackFrames& frames, ThreadState& thread, WalkStart start, bool hash_is_enough) {
  const bool python = g_stack_mode == Stacks::kPython || g_stack_mode == Stacks::kAll;
  const bool native = g_stack_mode == Stacks::kNative || g_stack_mode == Stacks::kAll;
  frames.python_count = python ? python_frames(frames.python, kPythonFrames + 1) : 0;
  frames.native_count = 0;
  frames.native_hash = 0;
  if (native &&
      !(hash_is_enough && native_hash_known(start, *thread.native_memo, frames.native_hash))) {
    frames.native_count = native_frames(start, frames.native, kNativeFrames + 1,
                                        *thread.native_memo, frames.native_hash);
  }
  frames.cut = frames.python_count > kPythonFrames || frames.native_count > kNativeFrames;
  frames.python_count = frames.python_count < kPythonFrames ? frames.python_count : kPythonFrames;
  frames.native_count = frames.native_count < kNativeFrames ? frames.native_count : kNativeFrames;
}

// 0 for no frames at all.
uint64_t hash_of_keys(const StackFrames& frames) {
  if (frames.python_count == 0 && frames.native_hash == 0) {
    return 0;
  }
  uint64_t hash = format::mixed(frames.native_hash, frames.python_count);
  for (size_t i = 0; i < frames.python_count; ++i) {
    const auto instruction = static_cast<uint32_t>(frames.python[i].instruction);
    hash = format::mixed(hash, frames.keys[i] + instruction);
  }
  return hash | 1;
}

uint64_t hash_of(StackFrames& frames, CodeMemo& memo) {
  python_code_keys(frames.python, frames.python_count, memo, frames.keys);
  return hash_of_keys(frames);
}

void define_code(ThreadState& thread, uint32_t id, const PythonCode& what) {
  const size_t table_bytes =
      what.line_table_bytes < kMostLineTable ? what.line_table_bytes : kMostLineTable;
  const size_t bytes =
      sizeof(format::PythonCodeDefinition) + what.qualname_bytes + what.file_bytes + table_bytes;
  auto* const definition = static_cast<format::PythonCodeDefinition*>(
      begin_definition(thread, format::kPythonCode, bytes));
  if (definition == nullptr) {
    return;
  }
  definition->id = id;
  definition->minor = what.minor;
  definition->first_line = what.first_line;
  definition->name_bytes = what.qualname_bytes;
  definition->file_bytes = what.file_bytes;
  definition->line_table_bytes = static_cast<uint32_t>(table_bytes);
  char* text = reinterpret_cast<char*>(definition + 1);
  text = append(text, what.qualname, what.qualname_bytes);
  text = append(text, what.file, what.file_bytes);
  append(text, what.line_table, table_bytes);
  commit_definition(thread, definition);
}

uint32_t id_of_code(ThreadState& thread, uint64_t code, uint64_t key) {
  bool is_new = false;
  const uint32_t id = g_codes.add(key, is_new);
  PythonCode& what = thread.frames->code;
  if (is_new && describe_python_code(code, what)) {
    define_code(thread, id, what);
  } else if (id == 0) {
    count(format::Stat::DefinitionsFull);
  }
  return id;
}

void define_stack(ThreadState& thread, uint32_t id, const StackFrames& frames) {
  // Before the stack is begun: a thread has one definition under way at a time.
  format::PythonFrame* const python = thread.frames->defined;
  for (size_t i = 0; i < frames.python_count; ++i) {
    python[i] = {id_of_code(thread, frames.python[i].code, frames.keys[i]),
                 frames.python[i].instruction};
  }
  const size_t python_bytes = frames.python_count * sizeof python[0];
  const size_t native_bytes = frames.native_count * sizeof frames.native[0];
  auto* const definition = static_cast<format::StackDefinition*>(begin_definition(
      thread, format::kStack, sizeof(format::StackDefinition) + python_bytes + native_bytes));
  if (definition == nullptr) {
    return;
  }
  definition->id = id;
  definition->python_frames = static_cast<uint16_t>(frames.python_count);
  definition->native_frames = static_cast<uint16_t>(frames.native_count);
  char* const native = append(reinterpret_cast<char*>(definition + 1), python, python_bytes);
  append(native, frames.native, native_bytes);
  commit_definition(thread, definition);
}

// New modules may be an interpreter.
void seek_python() {
  const uint64_t version = modules_version() + 1;
  if (g_stack_mode != Stacks::kNative && load(g_python_sought) != version) {
    publish(g_python_sought, version);
    find_python();
  }
}

// Not inlined, so that the frames of known stacks do not make room for a description of code.
[[gnu::noinline]] uint32_t first_seen(ThreadState& thread, WalkStart start, StackFrames& frames) {
  const Undisturbed undisturbed;
  define_modules(thread);
  seek_python();
  walk(frames, thread, start, false);
  const uint64_t hash = hash_of(frames, *thread.code_memo);
  if (hash == 0) {
    return 0;
  }
  bool is_new = false;
  const uint32_t id = g_stacks.add(hash, is_new);
  if (is_new) {
    define_stack(thread, id, frames);
    if (frames.cut) {
      count(format::Stat::StackTruncated);
    }
  } else if (id == 0) {
    publish(g_full, true);
    count(format::Stat::DefinitionsFull);
  }
  return id;
}

// Before anything refers to it: code that is gone by now has no name.
bool define_sampled_code(ThreadState& own, uint64_t code, uint64_t key, CopiedMemory& memory) {
  if (key == 0 || g_codes.find(key) != 0) {
    return key != 0;
  }
  static constinit SampledText text = {};
  PythonCode& what = own.frames->code;
  if (!describe_sampled_code(code, memory, text, what)) {
    return false;
  }
  bool is_new = false;
  const uint32_t id = g_codes.add(key, is_new);
  if (is_new) {
    define_code(own, id, what);
  }
  return id != 0;
}

// Whether looking closer can give more than a 0.
bool is_hopeless(uint64_t hash) {
  return hash == 0 ? load(g_python_sought) == modules_version() + 1 : load(g_full);
}

}  // namespace

constinit Stacks g_stack_mode = Stacks::kAll;

uint32_t current_stack(ThreadState& thread, WalkStart start) noexcept {
  if (g_stack_mode == Stacks::kOff) {
    return 0;
  }
  StackFrames& frames = *thread.frames;
  walk(frames, thread, start, true);
  if (frames.python_count != 0) {
    host_samples_watch(thread);
  }
  const uint64_t hash = hash_of(frames, *thread.code_memo);
  const uint32_t id = hash == 0 ? 0 : g_stacks.find(hash);
  return id != 0 || is_hopeless(hash) ? id : first_seen(thread, start, frames);
}

uint32_t sampled_stack(ThreadState& own, const PythonThread& thread,
                       CopiedMemory& memory) noexcept {
  if (g_stack_mode != Stacks::kPython && g_stack_mode != Stacks::kAll) {
    return 0;
  }
  StackFrames& frames = *own.frames;
  frames.native_count = 0;
  frames.native_hash = 0;
  frames.python_count = sampled_frames(thread, memory, frames.python, kPythonFrames);
  for (size_t i = 0; i < frames.python_count; ++i) {
    const uint64_t code = frames.python[i].code;
    frames.keys[i] = sampled_code_key(code, memory);
    if (!define_sampled_code(own, code, frames.keys[i], memory)) {
      return 0;
    }
  }
  const uint64_t hash = hash_of_keys(frames);
  bool is_new = false;
  const uint32_t id = hash == 0 ? 0 : g_stacks.add(hash, is_new);
  if (is_new) {
    define_stack(own, id, frames);
  }
  return id;
}

void stacks_start() noexcept {
  g_python_sought = 0;
  g_full = false;
  g_stacks.start(kMostStacks);
  g_codes.start(kMostCodes);
}

void stacks_drop() noexcept {
  g_stacks.drop();
  g_codes.drop();
}

}  // namespace traintrace
