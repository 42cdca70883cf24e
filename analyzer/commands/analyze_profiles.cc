// traintrace analyze of timelines that a profiler recorded.
#include <iterator>

#include "analyzer/commands/analyze.h"
#include "analyzer/commands/profiled_run.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/latency.h"

namespace traintrace {

Result<Analysis> analyze_profiles(const std::vector<std::string>& files,
                                  const AnalyzeOptions& options) {
  const Result<ProfiledRun> profiled = read_profiled_run(files, options.run.run);
  if (!profiled) {
    return profiled.error();
  }
  std::vector<Finding> findings = find_in_profile(profiled->profile);
  for (const Detector detector : {find_missing_trace, find_truncated, find_corrupt}) {
    std::vector<Finding> found = detector(profiled->run);
    std::move(found.begin(), found.end(), std::back_inserter(findings));
  }
  return report_as_asked(profiled->run, std::move(findings), options);
}

}  // namespace traintrace
