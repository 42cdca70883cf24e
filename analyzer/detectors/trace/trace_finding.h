// What findings about the traces themselves have in common: a warning where they made a verdict
// less certain, else information.
#pragma once

#include <string>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// `doubt` null: it never lowers a certainty.
Finding trace_finding(const Run& run, std::string_view code, bool Doubts::*doubt);

Ranks ranks_of_process(const Run& run, size_t process);

// At most 16 lines, and how many more there would be.
std::vector<std::string> cut(std::vector<std::string> lines);

// A detector beside those of detectors.h: files on a server that is gone.
std::vector<Finding> find_unreachable(const Run& run);

// What the reader said about files, readable and unreadable, that are (not) truncated; sorted.
std::vector<std::string> error_lines(const Run& run, bool truncated);

}  // namespace traintrace
