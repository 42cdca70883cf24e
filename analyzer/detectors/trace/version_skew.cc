// Ranks of one run recorded by different versions of the tracer.
#include <fmt/format.h>

#include <map>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"

namespace traintrace {

std::vector<Finding> find_version_skew(const Run& run) {
  std::map<std::string, Ranks> versions;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const auto fact = run.processes[i].facts.find("traintrace-version");
    if (fact != run.processes[i].facts.end()) {
      for (const Rank rank : ranks_of_process(run, i)) {
        insert(versions[fact->second], rank);
      }
    }
  }
  if (versions.size() < 2) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.version-skew", nullptr);
  finding.title = fmt::format("ranks were recorded by {} versions of the tracer", versions.size());
  for (const auto& [version, ranks] : versions) {
    finding.sides.push_back(ranks);
    finding.evidence.push_back(fmt::format("version {}: {}", version, ranks_text(ranks)));
  }
  finding.values = {{"version_count", static_cast<int64_t>(versions.size())}};
  return {finding};
}

}  // namespace traintrace
