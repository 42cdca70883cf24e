// Files that are there, on a server that does not answer.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/reader/silent_inputs.h"

namespace traintrace {

std::vector<Finding> find_unreachable(const Run& run) {
  std::vector<std::string> lines;
  for (const ReadError& error : run.unreadable) {
    if (is_silent_file(error.file)) {
      lines.push_back(error.file + ": " + error.message);
    }
  }
  if (lines.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.unreachable", &Doubts::missing_traces);
  const bool one = lines.size() == 1;
  finding.title = fmt::format("{} input{} not read: {} file server does not answer", lines.size(),
                              one ? " was" : "s were", one ? "its" : "their");
  finding.values = {{"file_count", static_cast<int64_t>(lines.size())}};
  std::sort(lines.begin(), lines.end());
  finding.evidence = cut(std::move(lines));
  finding.advice =
      "analyze again when the file server answers, or name a copy that lies elsewhere; the rest is "
      "judged without these files";
  return {finding};
}

}  // namespace traintrace
