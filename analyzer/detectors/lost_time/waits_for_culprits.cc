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
  for (size_t group = 0; group < profile.groups.size(); ++group) {
    const Arrivals& arrivals = profile.groups[group];
    const std::optional<size_t> member = arrivals.member(device.timeline);
    if (!member || !arrivals.usable() || arrivals.by_host) {
      continue;
    }
    for (size_t i = std::max<size_t>(1, device.collectives_before_loop[group]);
         i < arrivals.list.size(); ++i) {
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

std::set<size_t> who_waits(const Profile& profile) {
  std::set<size_t> waiting;
  for (const DeviceProfile& device : profile.devices) {
    if (device.share(collective_times(profile, device).waited_ns) >= kWarnShare) {
      waiting.insert(device.timeline);
    }
  }
  return waiting;
}

}  // namespace

std::set<size_t> with_those_held_up(const Profile& profile, std::set<size_t> timelines) {
  const std::set<size_t> waiting = who_waits(profile);
  for (size_t before = 0; before < timelines.size();) {
    before = timelines.size();
    for (const Arrivals& arrivals : profile.groups) {
      const bool is_met = std::any_of(arrivals.members.begin(), arrivals.members.end(),
                                      [&](size_t member) { return timelines.contains(member); });
      std::copy_if(arrivals.members.begin(), arrivals.members.end(),
                   std::inserter(timelines, timelines.end()),
                   [&](size_t member) { return is_met && waiting.contains(member); });
    }
  }
  return timelines;
}

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
