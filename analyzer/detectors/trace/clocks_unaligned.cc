// Hosts whose clocks contradict each other: an operation over here before all there had entered it.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"

namespace traintrace {

std::vector<Finding> find_unaligned_clocks(const Run& run) {
  if (run.skews.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.clocks-unaligned", &Doubts::clocks);
  TimeNs worst = 0;
  for (const ClockSkew& skew : run.skews) {
    worst = std::max(worst, skew.skew);
    finding.evidence.push_back(fmt::format(
        "the clock of {} is {} or more behind that of {}, by when collectives ended; the "
        "times here are brought together to within {}",
        skew.behind, seconds(skew.skew), skew.ahead, seconds(skew.error)));
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.title =
      fmt::format("clocks of hosts contradict each other by {} or more", seconds(worst));
  finding.values = {{"skew_ns", worst}};
  finding.advice = "synchronise the hosts' clocks (NTP)";
  return {finding};
}

}  // namespace traintrace
