// A file ends before its own header says.
#include <fmt/format.h>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace_finding.h"

namespace traintrace {

std::vector<Finding> find_truncated(const Run& run) {
  std::vector<std::string> lines = error_lines(run, true);
  if (lines.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.truncated", &Doubts::truncated);
  finding.title =
      fmt::format("{} trace{} end{} before {} should", lines.size(), lines.size() == 1 ? "" : "s",
                  lines.size() == 1 ? "s" : "", lines.size() == 1 ? "it" : "they");
  finding.values = {{"file_count", static_cast<int64_t>(lines.size())}};
  finding.evidence = cut(std::move(lines));
  return {finding};
}

}  // namespace traintrace
