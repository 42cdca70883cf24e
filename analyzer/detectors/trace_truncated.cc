// A file ends before its own header says.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace_finding.h"

namespace traintrace {

std::vector<Finding> find_truncated(const Run& run) {
  std::vector<std::string> lines = error_lines(run, true);
  if (lines.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.truncated", &Doubts::truncated);
  const size_t of_no_use =
      static_cast<size_t>(std::count_if(run.unreadable.begin(), run.unreadable.end(),
                                        [](const ReadError& error) { return error.truncated; }));
  finding.title = fmt::format(
      "{} trace{} {} truncated{}", lines.size(), lines.size() == 1 ? "" : "s",
      lines.size() == 1 ? "is" : "are",
      of_no_use == 0 ? "" : fmt::format("; nothing can be said about {} of them", of_no_use));
  if (of_no_use != 0) {
    finding.severity = Severity::kWarning;
  }
  finding.values = {{"file_count", static_cast<int64_t>(lines.size())}};
  finding.evidence = cut(std::move(lines));
  return {finding};
}

}  // namespace traintrace
