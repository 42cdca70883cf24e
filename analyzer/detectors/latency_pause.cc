// The GPU had nothing to do once and for long: a checkpoint, an evaluation, start-up.  No habit.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/latency_finding.h"

namespace traintrace {
namespace {

constexpr IdleCause kCauses[] = {IdleCause::kDataStarvation, IdleCause::kSyncInduced,
                                 IdleCause::kAllocator,      IdleCause::kHostPeerWait,
                                 IdleCause::kHostBound,      IdleCause::kLaunchCall};

const char* doing(IdleCause cause) {
  switch (cause) {
    case IdleCause::kDataStarvation:
      return "in the data loader, in";
    case IdleCause::kSyncInduced:
      return "after";
    case IdleCause::kAllocator:
    case IdleCause::kLaunchCall:
      return "inside";
    case IdleCause::kHostPeerWait:
      return "waiting on the host for other ranks in";
    default:
      return "before";
  }
}

// One for each pause, longest first.
std::vector<IdleSite> pauses_of(const DeviceProfile& device) {
  std::vector<IdleSite> pauses;
  for (const IdleCause cause : kCauses) {
    for (const IdleSite& site : single_pauses(device, of_cause(cause))) {
      for (const IdleGap& gap : site.gaps) {
        pauses.push_back({site.cause, site.call, site.site, site.op, gap.ns, {gap}});
      }
    }
  }
  std::stable_sort(pauses.begin(), pauses.end(),
                   [](const IdleSite& a, const IdleSite& b) { return a.ns > b.ns; });
  return pauses;
}

std::string pause_text(const DeviceProfile& device, const IdleSite& pause) {
  const bool start_up =
      device.loop_start_ns && pause.gaps.front().until_ns <= *device.loop_start_ns;
  return fmt::format("{}{} {} {}{}", start_up ? "before the first step, " : "", ms_text(pause.ns),
                     doing(pause.cause), pause.call, caller_text(pause));
}

}  // namespace

std::vector<Finding> find_pauses(const Profile& profile) {
  const std::vector<LossOn> losses = idle_losses_of(
      profile, kWarnShare, [](const DeviceProfile& device) { return sum_ns(pauses_of(device)); });
  if (losses.empty()) {
    return {};
  }
  const DeviceProfile& worst = *losses.front().device;
  const std::vector<IdleSite> pauses = pauses_of(worst);
  Finding finding = loss_finding("latency.pause", losses);
  finding.certainty = Certainty::kProof;
  finding.title =
      pauses.size() == 1
          ? fmt::format("the GPU of rank {} was idle once for {} ({}), not in each step",
                        worst.rank.value, ms_text(pauses.front().ns),
                        share_text(worst, pauses.front().ns))
          : fmt::format("the GPU of rank {} was idle for {} in {} single pauses, not in each step",
                        worst.rank.value, share_text(worst, losses.front().ns), pauses.size());
  finding.sides = {finding.culprits};
  finding.culprits.clear();
  finding.evidence.clear();  // it says how much that is in each step
  finding.values = {{"idle_ns", losses.front().ns},
                    {"idle_percent", percent_of(worst, losses.front().ns)},
                    {"pause_count", static_cast<int64_t>(pauses.size())},
                    {"longest_ns", pauses.front().ns}};
  finding.where.push_back(place_of(worst.rank, pauses.front()));
  constexpr size_t kMostPauses = 5;
  for (size_t i = 0; i < pauses.size() && i < kMostPauses; ++i) {
    finding.evidence.push_back(
        fmt::format("rank {}: {}", worst.rank.value, pause_text(worst, pauses[i])));
  }
  finding.values.emplace_back("gain_ns", losses.front().ns);
  finding.evidence.push_back(fmt::format(
      "without {} the recorded window of rank {} would take {} instead of {}, at best",
      pauses.size() == 1 ? "it" : "them", worst.rank.value,
      ms_text(worst.times.window_ns - losses.front().ns), ms_text(worst.times.window_ns)));
  for (const LossOn& loss : losses) {
    name_sites(*loss.device, pauses_of(*loss.device), finding);
  }
  finding.advice =
      "no action if it is a checkpoint, an evaluation or start-up; else look at that line";
  return {finding};
}

}  // namespace traintrace
