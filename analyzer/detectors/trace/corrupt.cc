// A part of a file cannot be what the tracer wrote.
#include <fmt/format.h>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"

namespace traintrace {

std::vector<Finding> find_corrupt(const Run& run) {
  std::vector<std::string> lines = error_lines(run, false);
  if (lines.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.corrupt", &Doubts::corrupt);
  finding.title = fmt::format("{} part{} of the traces cannot be read", lines.size(),
                              lines.size() == 1 ? "" : "s");
  finding.values = {{"error_count", static_cast<int64_t>(lines.size())}};
  finding.evidence = cut(std::move(lines));
  return {finding};
}

}  // namespace traintrace
