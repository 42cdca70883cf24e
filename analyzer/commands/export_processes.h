// What `traintrace export` makes of whole runs, of traces of ours or of files of PyTorch's
// profiler.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/exporters/exported_process.h"
#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/reader/result.h"

namespace traintrace {

// `read_events` gives a process with all its events, until the next call.
using MakeExport =
    std::function<std::string(std::span<const ExportedProcess> processes,
                              std::span<const Finding> findings, const ReadEvents& read_events)>;

// What `make` made of them.
Result<std::string> export_processes(const std::vector<std::string>& arguments,
                                     const MakeExport& make);

}  // namespace traintrace
