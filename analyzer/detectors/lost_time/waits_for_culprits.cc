#include "analyzer/detectors/lost_time/waits_for_culprits.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/detectors/lost_time/time_account.h"

namespace traintrace {
namespace {

bool tells_why_late(const Finding& finding) {
  constexpr std::string_view kCodes[] = {"latency.data-starvation", "latency.host-bound",
                                         "latency.sync-in-loop",    "latency.implicit-sync",
                                         "latency.pageable-copy",   "latency.cpu-contention",
                                         "latency.step-regression"};
  return finding.severity != Severity::kInfo &&
         std::find(std::begin(kCodes), std::end(kCodes), finding.code) != std::end(kCodes);
}

// Until a culprit came, in collectives to which it came last.
int64_t waited_for(const Profile& profile, const DeviceProfile& device, const Ranks& culprits) {
  int64_t waited = 0;
  for (const Arrivals& arrivals : profile.groups) {
    const std::optional<size_t> member = arrivals.member(device.timeline);
    if (!member || !arrivals.usable() || arrivals.by_host) {
      continue;
    }
    for (size_t i = 1; i < arrivals.list.size(); ++i) {
      const Arrival& arrival = arrivals.list[i];
      const auto last = std::max_element(arrival.start_ns.begin(), arrival.start_ns.end()) -
                        arrival.start_ns.begin();
      const std::optional<int>& rank =
          profile.timelines[arrivals.members[static_cast<size_t>(last)]].rank;
      if (arrival.is_known() && rank && contains(culprits, Rank{*rank})) {
        waited += arrival.wait_of(*member);
      }
    }
  }
  return std::min(waited, device.times.exposed_communication_ns);
}

}  // namespace

void name_waits_for_culprits(const Profile& profile, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (!tells_why_late(finding)) {
      continue;
    }
    for (const DeviceProfile& device : profile.devices) {
      if (!contains(finding.culprits, device.rank)) {
        name_loss(device, kExposedLoss, waited_for(profile, device, finding.culprits), finding);
      }
    }
  }
}

}  // namespace traintrace
