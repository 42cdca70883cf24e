// The file that everything is recorded in: where it may lie, and its layout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/trace_format.h"
#include "interpose/files.h"
#include "interpose/settings.h"

namespace traintrace {

// Who this process is: its name among all traces.
struct Identity {
  char host[64];
  int32_t pid;
  int32_t parent_pid;
  uint64_t start_time;  // field 22 of /proc/PID/stat
  uint64_t boot_id[2];
  uint64_t pid_namespace;
};
Identity identify() noexcept;

struct TraceFile {
  format::FileHeader* header;  // null: there is no file; `why` says so
  size_t bytes;
  uint32_t ring_mb;       // may be less than asked for, where space is short
  const char* elsewhere;  // why it is not in TRAINTRACE_DIR, which gets a pointer; null: it is
  const char* why;
  ShortText path;
};

// Creates, allocates and maps the file.  All of it is allocated, so that a full disk cannot kill
// the process later, and nothing of it lies on a network file system, whose server could block a
// rank.  Fills in the header but for the clock; `ready` stays 0.
void create_trace_file(const Settings& settings, const Identity& identity,
                       TraceFile& into) noexcept;

// Tells where the trace is, in TRAINTRACE_DIR.  May block on a dead server: by the own thread only.
void write_pointer_file(const char* dir, const Identity& identity, const char* trace) noexcept;

}  // namespace traintrace
