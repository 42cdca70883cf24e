// Reads the text form of traces (docs/dump.md): what `traintrace dump` printed, or a story written
// by hand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/result.h"

namespace traintrace {

struct DumpText {
  TimeNs start = 0;  // what +0 was at the end of it
  std::vector<ProcessTrace> processes;
  std::string rest;   // what followed a line `---`
  int rest_line = 0;  // its first line, from 1; 0: there was no such line
};

// `file` is for messages and the processes' `source`.  An error's offset is the line, from 1.
Result<DumpText> parse_dump(std::string_view text, const std::string& file);

}  // namespace traintrace
