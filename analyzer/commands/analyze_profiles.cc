// traintrace analyze of timelines that a profiler recorded.
#include "analyzer/commands/analyze.h"
#include "analyzer/commands/sources/profiled_run.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/each_detector.h"
#include "analyzer/detectors/lost_time/latency.h"
#include "analyzer/detectors/lost_time/time_account.h"

namespace traintrace {

Result<Analysis> analyze_profiles(const std::vector<std::string>& files,
                                  const AnalyzeOptions& options) {
  Result<ProfiledRun> profiled = read_profiled_run(files, options.run.run);
  if (!profiled) {
    return profiled.error();
  }
  std::vector<Finding> findings = find_in_profile(profiled->profile);
  profiled->run.lost_times = lost_times(profiled->profile, findings);
  constexpr NamedDetector<Detector> kDetectors[] = {
      TT_DETECTOR(find_missing_trace), TT_DETECTOR(find_truncated), TT_DETECTOR(find_corrupt)};
  find_with_each(kDetectors, findings, profiled->run);
  profiled->run.profile = std::make_shared<const Profile>(std::move(profiled->profile));
  return report_as_asked(profiled->run, std::move(findings), options);
}

}  // namespace traintrace
