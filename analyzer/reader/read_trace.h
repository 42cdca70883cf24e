// Native traces: one file per process, of a live or a dead process.  Nothing in them is trusted.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/result.h"

namespace traintrace {

struct ReadOptions {
  bool events = true;  // else only the tables: verdicts need no more, and they are small
  // Else reports of PyTorch's allocator that full recording kept stay in their file
  // (stored_reports.h).
  bool reports = true;
  // Else without ProcessTrace::tensor_blocks and freed_blocks: of what time was spent on they tell
  // nothing, and there may be a million.
  bool tensor_blocks = true;
  // Of events only those of these kinds (kinds.def); empty: all.
  std::span<const std::string_view> only_kinds = {};
  // When the process's machine was started, by the clock that its times are to be told by
  // (ProcessTrace::booted of others there); 0: by the clock as it stood at its newest heartbeat.
  TimeNs booted = 0;
  // Of calls only those that something refers to, and without events of modules too.  Of 16,384
  // processes the others would be 5 GB.
  bool lean = false;
  // These come first in ProcessTrace::calls: records of it may then be put among those of a trace
  // that was read without.
  std::span<const CallSchema> first_calls = {};
  // Called with each trace of read_traces, before the next is read: what it drops of it is not held
  // while the others are.
  std::function<void(ProcessTrace&)> as_read = {};
};

// `path` may be a pointer file (HOST.PID.STARTTIME.pointer).  An error: nothing of it could be
// used; what could not be read of a file that is usable otherwise is in ProcessTrace::errors.
Result<ProcessTrace> read_trace(const std::string& path, const ReadOptions& options);

// Its header alone.
Result<format::FileHeader> read_trace_header(const std::string& path);

// What is read where nothing is named, and what is said where there is none.
inline constexpr const char* kDefaultFolder = "traintrace";
ReadError no_default_folder();

// What the arguments of a command name: files and folders of traces, or text that dump printed.
// None: ./traintrace.
struct TraceSet {
  std::vector<ProcessTrace> processes;  // sorted by path
  std::vector<ReadError> errors;        // inputs of which nothing could be used
  std::vector<std::string> telemetry;   // files of GPUs' counters (telemetry/gpu_history.h)
  std::vector<std::string>
      supporting;  // files that say something beside (importers/logs/testimony.h)
};
TraceSet read_traces(std::span<const std::string> arguments, const ReadOptions& options);

}  // namespace traintrace
