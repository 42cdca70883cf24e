// The GPU is faster than the host can launch, and nothing else holds the host up.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/detectors/lost_time/host_between.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

int64_t late_launches(const DeviceProfile& device) {
  const bool queued = device.median_lead_ns >= kNoLeadNs;
  return is_attributed(device) ? late_loss(device, queued ? kQueuedShare : kWarnShare) : 0;
}

std::string lead_text(int64_t lead_ns) {
  return lead_ns < 0
             ? "half of them returned after their work had begun"
             : fmt::format("the work of half of them began less than {:.1f} us after they returned",
                           static_cast<double>(lead_ns) / 1e3);
}

// Of the launches that came late, not of all: between them the host may be far ahead.
void add_leads(const Profile& profile, const DeviceProfile& device, Finding& finding) {
  std::set<int64_t> began_ns;
  for (const IdleSite& site : late_sites(device)) {
    for (const IdleGap& gap : site.gaps) {
      began_ns.insert(gap.until_ns);
    }
  }
  const Timeline& timeline = profile.timelines[device.timeline];
  const int64_t late_ns = median_lead(timeline, timeline.work, [&](const GpuWork& work) {
    return work.device == device.device && began_ns.contains(work.start_ns);
  });
  finding.evidence.push_back(
      fmt::format("rank {}: {} launches came when the GPU had run out of work; {}",
                  device.rank.value, began_ns.size(), lead_text(late_ns)));
  if (device.median_lead_ns >= kNoLeadNs) {
    finding.evidence.push_back(
        fmt::format("rank {}: at other times the host is ahead: of all launches of kernels half "
                    "returned {} or more before their work began",
                    device.rank.value, duration_text(device.median_lead_ns)));
  }
}

// By calls alone it is certain that the GPU had nothing to do, and what the host did is not known.
// What calls that wait let it lose at most is theirs (latency.sync-in-loop), this is the rest.
void tell_by_host(const Profile& profile, const std::vector<LossOn>& losses, Finding& finding) {
  const DeviceProfile& worst = *losses.front().device;
  finding.certainty = Certainty::kProof;
  // Of a job whose GPU has little to do, as a small model's or a test's, the same is true, and how
  // long the GPU works is not known.
  finding.severity = Severity::kInfo;
  add_sites(losses, late_sites, finding);
  add_host_between(profile, worst, "until its next launch, with nothing left for the GPU to do,",
                   late_sites(worst), finding);
  finding.advice =
      "shorten what the host does from that line to its next launch (data loading, logging, "
      "Python), or launch the next work before that call";
}

}  // namespace

std::vector<Finding> find_host_bound(const Profile& profile) {
  const std::vector<LossOn> losses = idle_losses_of(profile, kWarnShare, late_launches);
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.host-bound", losses);
  const DeviceProfile& worst = *losses.front().device;
  finding.title = "host-bound: " + idle_text(losses) + " because kernels are launched too late";
  if (worst.by_host) {
    tell_by_host(profile, losses, finding);
    return {finding};
  }
  add_alike(profile, losses, HostTime::kLaunching,
            {"launches too slowly as well, while its GPU waits in collectives",
             "launch too slowly as well, while their GPUs wait in collectives"},
            finding);
  finding.values.emplace_back("busy_percent", percent_of(worst, worst.times.busy_ns));
  finding.values.emplace_back("median_lead_ns", worst.median_lead_ns);
  add_leads(profile, worst, finding);
  add_sites(losses, late_sites, finding);
  finding.advice =
      "fewer and larger kernels: CUDA graphs, torch.compile, fused optimizers, larger batches; or "
      "less Python between launches";
  return {finding};
}

}  // namespace traintrace
