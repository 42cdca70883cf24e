// Time in collectives that is waiting for the last rank to come, and not transfer.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/latency_finding.h"

namespace traintrace {

std::vector<Finding> find_waiting_collectives(const Profile& profile) {
  const Arrivals& arrivals = profile.arrivals;
  if (!arrivals.usable()) {
    return {};
  }
  // What was late to the first lies before the recording.
  const std::span<const Arrival> counted = std::span(arrivals.list).subspan(1);
  const std::vector<OwnLateness> lateness = own_lateness(arrivals);
  const auto waited = [&](const DeviceProfile& device) {
    const int64_t waiting = lateness[device.timeline].waited_ns;
    int64_t other = device.times.communication_ns;
    for (const Arrival& arrival : arrivals.list) {
      if (&arrival == &arrivals.list.front() || !arrival.is_known()) {
        other -= arrival.end_ns[device.timeline] - arrival.start_ns[device.timeline];
      }
    }
    // What was computed meanwhile is no loss.
    return waiting > other / 2 ? std::min(waiting, device.times.exposed_communication_ns) : 0;
  };
  const std::vector<LossOn> losses = losses_of(profile, kWarnShare, waited);
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.wait-not-transfer", losses);
  const DeviceProfile& worst = *losses.front().device;
  int64_t transfer = 0;
  for (const Arrival& arrival : counted) {
    transfer += arrival.is_known() ? arrival.transfer_ns() : 0;
  }
  finding.certainty = Certainty::kProof;
  finding.title = fmt::format(
      "{} spend most of their time in collectives waiting for the last to come: rank {} {}, "
      "while all transfers together take {}",
      ranks_text(finding.culprits), worst.rank.value, share_text(worst, losses.front().ns),
      ms_text(transfer));
  name_waits(profile, finding);
  finding.victims = finding.culprits;  // who is late, latency.straggler and entry-skew say
  finding.culprits.clear();
  finding.values = {{"waited_ns", losses.front().ns},
                    {"transfer_ns", transfer},
                    {"communication_ns", worst.times.communication_ns}};
  add_clocks(arrivals, finding);
  add_unknown(arrivals, finding);
  finding.advice = "faster links would not help: find out who comes late, and why";
  return {finding};
}

}  // namespace traintrace
