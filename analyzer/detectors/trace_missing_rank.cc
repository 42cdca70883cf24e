// A rank of the world left no trace.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace_finding.h"

namespace traintrace {

std::vector<Finding> find_missing_trace(const Run& run) {
  if (run.missing.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.missing-rank", &Doubts::missing_traces);
  finding.title = fmt::format("{} of {} left no trace", ranks_text(run.missing), run.world_size);
  finding.values = {{"missing_count", static_cast<int64_t>(run.missing.size())}};
  std::vector<std::string> lines;
  for (const ReadError& error : run.not_begun) {
    lines.push_back(
        fmt::format("{}: {}", error.file.substr(error.file.rfind('/') + 1), error.message));
  }
  std::sort(lines.begin(), lines.end());
  finding.evidence = cut(std::move(lines));
  finding.advice =
      "a process leaves a trace once it uses a GPU: look whether these did, and "
      "whether all folders were given";
  return {finding};
}

}  // namespace traintrace
