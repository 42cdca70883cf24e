// A rank of the world left no trace.
#include <fmt/format.h>

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
  finding.advice =
      "a process leaves a trace once it uses a GPU: look whether these did, and "
      "whether all folders were given";
  return {finding};
}

}  // namespace traintrace
