#include "analyzer/reader/sections/threads_file.h"

#include <algorithm>
#include <filesystem>

#include "analyzer/reader/files/file_bytes.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

// Of the thread that runs the user's code: watchdogs go on calling while it is stuck.
TimeNs last_call_of_main(const ProcessTrace& trace) {
  TimeNs last = 0;
  for (const ThreadText& thread : trace.threads) {
    if (thread.tid == trace.pid) {
      last = std::max({last, thread.last_call_time, thread.last_query_time, thread.open[0].enter,
                       thread.open[1].enter});
    }
  }
  return last;
}

}  // namespace

std::string threads_file_of(const std::string& trace) {
  return std::filesystem::path(trace).replace_extension(".threads").string();
}

void read_threads_file(ProcessTrace& trace) {
  const std::string path = threads_file_of(trace.source);
  const std::optional<std::string> text = bytes_of_file(path);
  if (!text) {
    return;
  }
  Result<DumpText> dump = parse_dump(*text, path);
  if (!dump) {
    ReadError error = dump.error();
    error.fatal = false;
    trace.errors.push_back(error);
    return;
  }
  for (ProcessTrace& seen : dump->processes) {
    if (seen.pid == trace.pid && seen.start_time == trace.start_time &&
        last_call_of_main(trace) <= seen.looked) {
      trace.looked = seen.looked;
      trace.now = std::move(seen.now);
    }
  }
}

}  // namespace traintrace
