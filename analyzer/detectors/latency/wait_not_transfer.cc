// Time in collectives that is waiting for the last rank to come, and not transfer.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/lost_time/gpu_straggler.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {

namespace {

// Of the groups that the device's rank is in; what was late to the first lies before the recording.
int64_t transfers_of(const Profile& profile, const DeviceProfile& device) {
  int64_t transfer = 0;
  for (const Arrivals& arrivals : profile.groups) {
    if (!arrivals.usable() || !arrivals.member(device.timeline)) {
      continue;
    }
    for (const Arrival& arrival : std::span(arrivals.list).subspan(1)) {
      transfer += arrival.is_known() ? arrival.transfer_ns() : 0;
    }
  }
  return transfer;
}

}  // namespace

std::vector<Finding> find_waiting_collectives(const Profile& profile) {
  const auto waited = [&](const DeviceProfile& device) {
    const CollectiveTimes times = collective_times(profile, device);
    const int64_t other = device.times.communication_ns - times.left_out_ns;
    // What was computed meanwhile is no loss.
    const int64_t waited = times.waited_ns - times.single_ns;  // the rest is latency.pause
    return waited > (other - times.single_ns) / 2
               ? std::min(waited, device.times.exposed_communication_ns)
               : 0;
  };
  const std::vector<LossOn> losses = losses_of(profile, kWarnShare, waited);
  if (losses.empty()) {
    return {};
  }
  const DeviceProfile& worst = *losses.front().device;
  const bool again = 2 * habit_of_waits(worst).sum_ns() >= losses.front().ns;
  Finding finding = loss_finding("latency.wait-not-transfer", losses,
                                 again ? Comes::kAgainAndAgain : Comes::kNowAndThen);
  const int64_t transfer = transfers_of(profile, worst);
  finding.certainty = Certainty::kProof;
  if (worst.steps != 0 && worst.steps < kReturns) {
    finding.severity = Severity::kInfo;  // too few steps to tell a habit from what happened once
  }
  finding.title = fmt::format(
      "most of what {} {} in collectives is waiting for the last rank to arrive: rank {} {}, "
      "while all transfers together take {}",
      ranks_text(finding.culprits), finding.culprits.size() == 1 ? "spends" : "spend",
      worst.rank.value, share_text(worst, losses.front().ns), ms_text(transfer));
  name_waits(profile, finding);
  finding.victims = finding.culprits;  // who is late, latency.straggler and entry-skew say
  finding.culprits.clear();
  finding.values = {{"waited_ns", losses.front().ns},
                    {"transfer_ns", transfer},
                    {"communication_ns", worst.times.communication_ns}};
  add_last_arrivals(profile, finding);
  for (const Arrivals& arrivals : profile.groups) {
    add_clocks(arrivals, finding);
    add_unknown(arrivals, finding);
  }
  finding.advice = "faster links would not help: find out why those ranks are late";
  return {finding};
}

}  // namespace traintrace
