// Prints traces as text (docs/dump.md), so that parse_dump gives the same data again.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct DumpOptions {
  bool tables = true;                                 // everything but calls
  std::string calls = "*";                            // glob: whose entries and returns are printed
  TimeNs since = std::numeric_limits<TimeNs>::min();  // calls entered from then on
  TimeNs until = std::numeric_limits<TimeNs>::max();  // and before then
  uint64_t limit = std::numeric_limits<uint64_t>::max();  // calls per process
};

// What is common to all processes of a dump.
struct DumpHeading {
  TimeNs start = 0;  // the `+0`: when the first of them was armed
  std::string line;
  // Of each process: its rank, or host:pid where it has none of its own.
  std::vector<std::string> names;
};
DumpHeading dump_heading(std::span<const ProcessTrace> processes);

// `write` gets whole lines, many at a time.
using WriteText = std::function<void(std::string_view)>;
void print_process(const ProcessTrace& trace, const std::string& name, TimeNs start,
                   const DumpOptions& options, const WriteText& write);
void print_dump(std::span<const ProcessTrace> processes, const DumpOptions& options,
                const WriteText& write);

}  // namespace traintrace
