// A file ends before its own header says.
#include <fmt/format.h>

#include <set>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"

namespace traintrace {
namespace {

std::set<std::string> truncated_in(const std::vector<ReadError>& errors) {
  std::set<std::string> files;
  for (const ReadError& error : errors) {
    if (error.truncated) {
      files.insert(error.file);
    }
  }
  return files;
}

}  // namespace

std::vector<Finding> find_truncated(const Run& run) {
  std::vector<std::string> lines = error_lines(run, true);
  if (lines.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.truncated", &Doubts::truncated);
  const std::set<std::string> useless = truncated_in(run.unreadable);
  std::set<std::string> files = useless;
  for (const ProcessTrace& trace : run.processes) {
    files.merge(truncated_in(trace.errors));
  }
  const size_t of_no_use = useless.size();
  const bool one = files.size() == 1;
  finding.title =
      fmt::format("{} trace{} {} truncated", files.size(), one ? "" : "s", one ? "is" : "are");
  if (of_no_use != 0) {
    finding.title += one ? "; it cannot be used"
                     : of_no_use == files.size()
                         ? "; none of them can be used"
                         : fmt::format("; {} of them cannot be used", of_no_use);
  }
  if (of_no_use != 0) {
    finding.severity = Severity::kWarning;
  }
  finding.values = {{"file_count", static_cast<int64_t>(files.size())}};
  finding.evidence = cut(std::move(lines));
  return {finding};
}

}  // namespace traintrace
