// The definitions of a trace (section kDefinitions).
// What is recorded once and referred to by id.  Chunks as for events, but never reused: a chunk
// whose thread ended goes on with the next thread.
#pragma once

#include <cstdint>

namespace traintrace::format {

struct DefinitionChunk {
  uint64_t ordinal;    // 0: never used
  uint32_t committed;  // bytes of whole definitions behind this header
  uint32_t reserved;
};

enum DefinitionKind : uint32_t {
  kModule = 1,             // ModuleDefinition, build-id, path
  kPythonCode = 2,         // PythonCodeDefinition, texts, line table
  kStack = 3,              // StackDefinition, frames
  kKernel = 4,             // KernelDefinition, name
  kFact = 5,               // FactDefinition, key, value
  kEndedCommunicator = 6,  // EndedCommunicatorDefinition, Communicator
  kRangeName = 7,          // RangeNameDefinition, domain, name
};

// Each definition starts with this and is padded to 8 bytes.
struct DefinitionHead {
  uint32_t kind;   // DefinitionKind; a reader skips kinds it does not know
  uint32_t bytes;  // including this head and the padding
};

struct ModuleDefinition {
  DefinitionHead head;
  uint64_t begin;  // addresses in the recorded process
  uint64_t end;
  uint64_t bias;          // address in the process - address in the ELF file
  uint64_t loaded_ticks;  // seen first at
  uint32_t build_id_bytes;
  uint32_t path_bytes;
  // build-id, path (not NUL-terminated)
};

struct PythonCodeDefinition {
  DefinitionHead head;
  uint32_t id;
  uint32_t minor;  // of CPython 3.minor: says how to read the line table
  int32_t first_line;
  uint32_t name_bytes;
  uint32_t file_bytes;
  uint32_t line_table_bytes;
  // qualified name, file, line table
};

struct PythonFrame {
  uint32_t code;        // id of a PythonCodeDefinition
  int32_t instruction;  // offset of the current instruction in bytes
};

struct StackDefinition {
  DefinitionHead head;
  uint32_t id;  // never 0
  uint16_t python_frames;
  uint16_t native_frames;
  // PythonFrame[python_frames], uint64_t return addresses[native_frames]; innermost first
};

struct KernelDefinition {
  DefinitionHead head;
  uint64_t function;  // as launches name it: host address (runtime) or handle (driver)
  uint32_t name_bytes;
  uint32_t reserved;
  // mangled name
};

struct FactDefinition {
  DefinitionHead head;
  uint32_t key_bytes;
  uint32_t value_bytes;
  // key: "env.NAME" (what format/environment.def keeps; "(set)": its value is not kept), "exe",
  // "command-line" (arguments separated by NUL; secrets masked, format/secrets.h), "cwd",
  // "cuda-driver-version", "nccl-version", "setting.NAME" (value in force), "setting-error.NAME"
  // (bad value that was ignored), .. value
};

// What a range or a mark of NVTX is called; records and OpenRange say the id.
struct RangeNameDefinition {
  DefinitionHead head;
  uint32_t id;  // never 0
  uint32_t domain_bytes;
  uint32_t name_bytes;
  uint32_t reserved;
  // name of the domain (none: the default one), name, both UTF-8 as far as the job's own texts are
};
}  // namespace traintrace::format
