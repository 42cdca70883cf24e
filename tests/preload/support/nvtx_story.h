// Jobs that use NVTX, and what their traces tell of it.
#pragma once

#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <string.h>

#include <string>
#include <utility>
#include <vector>

#include "support/process.h"
#include "support/raw_trace.h"

namespace preload {

namespace format = traintrace::format;
using Lines = std::vector<std::string>;

inline const std::string kLibrary = PRELOAD_BUILD "/lib/libtraintrace.so";

inline Program recorded(const std::string& role, const Folder& folder, Lines arguments = {}) {
  Program program = self(role, std::move(arguments));
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"NVTX_INJECTION64_PATH", kLibrary}};
  return program;
}

inline std::vector<RawTrace> traces_in(const Folder& folder) {
  std::vector<RawTrace> traces;
  for (const std::string& path : folder.traces()) {
    traces.push_back(read_raw(path));
    EXPECT_EQ(traces.back().problems, Lines());
  }
  return traces;
}

inline RawTrace trace_of(const std::string& role, Lines arguments = {}) {
  const Folder folder;
  const Outcome outcome = run(recorded(role, folder, std::move(arguments)));
  EXPECT_TRUE(outcome.exited_with(0) || outcome.killed_by(SIGKILL)) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  std::vector<RawTrace> traces = traces_in(folder);
  EXPECT_EQ(traces.size(), 1u);
  return traces.empty() ? RawTrace() : std::move(traces.front());
}

inline std::string name_in(const RawTrace& trace, uint64_t id) {
  const auto name = trace.range_names.find(id);
  return id == 0 ? "?" : name == trace.range_names.end() ? "undefined" : name->second;
}

// "> step", "< step", "! mark", "start x", "end" of a thread; calls of CUDA by their names.
inline Lines story_of(const RawTrace& trace, uint32_t thread) {
  Lines story;
  for (const RawRecord& record : trace.records) {
    const std::string& call = trace.name_of(record);
    if (record.thread != thread || record.type == format::kLeave) {
      continue;
    }
    const std::string kind = call.ends_with("Ex") ? call.substr(0, call.size() - 2) : call;
    const std::string what = kind == "nvtxRangePush"    ? "> "
                             : call == "nvtxRangePop"   ? "< "
                             : kind == "nvtxMark"       ? "! "
                             : kind == "nvtxRangeStart" ? "start "
                                                        : "";
    story.push_back(!what.empty()            ? what + name_in(trace, record.values.at(0))
                    : call == "nvtxRangeEnd" ? "end"
                                             : call);
  }
  return story;
}

// Of a thread, as a reader of the table finds it: outermost first.
inline Lines open_of(const RawTrace& trace, uint32_t thread) {
  Lines open;
  for (const format::OpenRanges& ranges : trace.open_ranges) {
    for (uint64_t i = 0; ranges.thread == thread && i < (ranges.state & 0xffff); ++i) {
      const format::OpenRange& range = ranges.ranges[i];
      if (range.began_ticks != 0) {
        open.push_back(range.range != 0 ? name_in(trace, range.range)
                                        : "=" + std::string(range.name, strnlen(range.name, 48)));
      }
    }
  }
  return open;
}

inline uint32_t main_thread(const RawTrace& trace) {
  for (const format::Thread& thread : trace.threads) {
    if (thread.tid == trace.header.pid) {
      return thread.serial;
    }
  }
  return 0;
}

inline Lines story_of_main(const RawTrace& trace) {
  return story_of(trace, main_thread(trace));
}

inline nvtxEventAttributes_t attributes_of(const char* text) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text;
  return attributes;
}

}  // namespace preload
