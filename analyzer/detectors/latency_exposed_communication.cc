// Collectives during which nothing is computed.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/latency_finding.h"
#include "analyzer/detectors/small_collectives.h"

namespace traintrace {

std::vector<Finding> find_exposed_communication(const Profile& profile) {
  const Arrivals& arrivals = profile.arrivals;
  const std::vector<LossOn> losses =
      losses_of(profile, kWarnShare, [&](const DeviceProfile& device) {
        if (!is_attributed(device)) {  // where work is missing, all communication looks exposed
          return int64_t{0};
        }
        // Those have a finding of their own.
        int64_t ns =
            device.times.exposed_communication_ns - small_collectives(profile, device).exposed_ns;
        if (arrivals.usable()) {  // waiting is another matter
          ns = std::max<int64_t>(0, ns - own_lateness(arrivals)[device.timeline].waited_ns);
          ns -= arrivals.list.front().wait_of(device.timeline);
        }
        return ns;
      });
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.exposed-communication", losses);
  const DeviceProfile& worst = *losses.front().device;
  finding.certainty = arrivals.usable() ? Certainty::kProof : Certainty::kLikely;
  finding.title = fmt::format("{} of {} is communication beside which nothing is computed",
                              share_text(worst, losses.front().ns), ranks_text(finding.culprits));
  finding.culprits.clear();
  const std::optional<int64_t> overlap = worst.times.overlap_percent_e4();
  finding.values = {{"exposed_ns", losses.front().ns},
                    {"exposed_percent", percent_of(worst, losses.front().ns)},
                    {"communication_ns", worst.times.communication_ns}};
  if (overlap) {
    finding.values.emplace_back("overlap_percent", (*overlap + 5000) / 10000);
  }
  if (worst.steps > 1) {
    finding.values.emplace_back("exposed_ns_per_step",
                                losses.front().ns / static_cast<int64_t>(worst.steps));
  }
  if (!arrivals.usable()) {
    finding.evidence.push_back("how much of it is waiting for other ranks cannot be told: " +
                               (arrivals.why_not.empty()
                                    ? std::string("ends of one collective contradict each other")
                                    : arrivals.why_not));
  }
  finding.advice =
      "start collectives earlier (gradient buckets, prefetching), or give them less to carry";
  return {finding};
}

}  // namespace traintrace
