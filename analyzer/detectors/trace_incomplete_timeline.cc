// Ranks' timelines that contradict each other: who was late cannot be said.
#include <fmt/format.h>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/latency.h"

namespace traintrace {

std::vector<Finding> find_incomplete_timeline(const Profile& profile) {
  const Arrivals& arrivals = profile.arrivals;
  if (profile.timelines.size() < 2 || arrivals.usable()) {
    return {};
  }
  const bool communicates = [&] {
    for (const DeviceProfile& device : profile.devices) {
      if (device.times.communication_ns != 0) {
        return true;
      }
    }
    return false;
  }();
  if (!communicates) {
    return {};
  }
  Finding finding;
  finding.code = "trace.incomplete-timeline";
  finding.severity = Severity::kWarning;
  finding.title =
      "who comes late to collectives cannot be said: " +
      (arrivals.why_not.empty()
           ? fmt::format("ends of one collective differ by up to {:.1f} ms between ranks",
                         static_cast<double>(arrivals.greatest_end_skew_ns) / 1e6)
           : arrivals.why_not);
  finding.values = {{"contradicted_count", static_cast<int64_t>(arrivals.contradicted)},
                    {"end_skew_ns", arrivals.greatest_end_skew_ns}};
  if (!arrivals.clocks.why_not.empty()) {
    finding.evidence.push_back("clocks cannot be brought together: " + arrivals.clocks.why_not);
  }
  finding.advice =
      "record all ranks over the same steps, with no events left out, and with clocks "
      "that agree";
  return {finding};
}

}  // namespace traintrace
