// Lines of the job's source, to be shown beside the place that they are at.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/process/code_place.h"

namespace traintrace {

struct SourceLine {
  int number = 0;
  std::string text;
  bool marked = false;  // the place itself
};

// `around` lines before and behind the place as well.  Empty where the file is not what ran: it is
// younger than the run, or is not here.  A trace may name any file, so that only those whose name
// is that of a program's source are opened, and never anything but a regular file.
std::vector<SourceLine> source_lines(const CodePlace& place, TimeNs run_start, int around);

// Relative to the current folder where it is below it.
std::string short_path(const std::string& path);

}  // namespace traintrace
