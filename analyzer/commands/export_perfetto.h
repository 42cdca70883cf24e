// traintrace export perfetto: a run, and what is found about it.
#pragma once

#include <string>
#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

// Of traces of ours, or of files of PyTorch's profiler.
Result<std::string> export_perfetto(const std::vector<std::string>& arguments);

}  // namespace traintrace
