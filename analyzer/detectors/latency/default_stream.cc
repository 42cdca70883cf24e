// Work that waits for nothing but the legacy default stream, or the legacy stream for it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

struct Waits {
  int64_t ns = 0;  // while anything waited
  std::vector<IdleGap> each;
  std::vector<IdleSite> sites;  // what was launched on the legacy stream, longest first
};

Waits waits_of(const Profile& profile, const DeviceProfile& device) {
  const Timeline& timeline = profile.timelines[device.timeline];
  std::unordered_map<uint64_t, const HostCall*> launches;
  Waits waits;
  if (timeline.legacy_waits.empty()) {
    return waits;
  }
  for (const HostCall& call : timeline.calls) {
    launches[call.correlation] = &call;
  }
  std::vector<Span> spans;
  std::map<std::pair<std::string, std::string>, IdleSite> sites;
  for (const LegacyWait& wait : timeline.legacy_waits) {
    const auto launch = launches.find(wait.legacy);
    if (wait.device != device.device || launch == launches.end()) {
      continue;
    }
    waits.each.push_back({wait.end_ns - wait.begin_ns, wait.end_ns});
    spans.push_back({wait.begin_ns, wait.end_ns});
    const std::string call = timeline.names[launch->second->name];
    const std::string place =
        launch->second->site == kNoName ? "" : timeline.names[launch->second->site];
    IdleSite& site = sites[{call, place}];
    site.cause = IdleCause::kDependency;
    site.call = call;
    site.site = place;
    site.ns += wait.end_ns - wait.begin_ns;
    site.gaps.push_back({wait.end_ns - wait.begin_ns, wait.end_ns});
  }
  waits.ns = length_ns(united(std::move(spans)));
  for (auto& [key, site] : sites) {
    waits.sites.push_back(std::move(site));
  }
  std::stable_sort(waits.sites.begin(), waits.sites.end(),
                   [](const IdleSite& a, const IdleSite& b) { return a.ns > b.ns; });
  return waits;
}

}  // namespace

std::vector<Finding> find_default_stream(const Profile& profile) {
  const std::vector<LossOn> losses =
      losses_of(profile, kWarnShare, [&](const DeviceProfile& device) {
        const Waits waits = waits_of(profile, device);
        return device.share(Habit(device, waits.each).sum_ns()) >= kWarnShare ? waits.ns : 0;
      });
  if (losses.empty()) {
    return {};
  }
  const DeviceProfile& worst = *losses.front().device;
  const Waits waits = waits_of(profile, worst);
  Finding finding = loss_finding("latency.default-stream", losses);
  for (const LossOn& loss : losses) {
    name_loss(*loss.device, static_cast<size_t>(IdleCause::kDependency), loss.ns, finding);
  }
  finding.title = fmt::format(
      "for {} work of {} waits for the legacy default stream, or that for other streams",
      share_text(worst, waits.ns), ranks_text(finding.culprits));
  finding.values = {{"waited_ns", waits.ns},
                    {"wait_count", static_cast<int64_t>(waits.each.size())}};
  constexpr size_t kMostSites = 3;
  for (size_t i = 0; i < waits.sites.size() && i < kMostSites; ++i) {
    const IdleSite& site = waits.sites[i];
    finding.where.push_back(place_of(worst.rank, site));
    finding.evidence.push_back(fmt::format(
        "{} waits for {} on the legacy stream{}, {} in all", site.gaps.size(), site.call,
        site.site.empty() ? "" : ", called by " + site.site, ms_text(site.ns)));
  }
  finding.evidence.push_back(
      "it had been launched, nothing before it on its stream ran any more, and it was told to wait "
      "for nothing else");
  finding.advice =
      "launch it on a stream of its own, or make the others with cudaStreamNonBlocking; or build "
      "with --default-stream per-thread";
  return {finding};
}

}  // namespace traintrace
