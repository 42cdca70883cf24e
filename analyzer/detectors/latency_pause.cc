// The GPU had nothing to do now and then, and for long: a checkpoint, an evaluation, start-up.  No
// habit; those that come again at even intervals, and cost much, are worth a warning.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

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

// A line whose pauses come again: after as much work each time, and over two fifths of the work.
bool comes_again(const DeviceProfile& device, const IdleSite& site) {
  if (site.gaps.size() < kReturns) {
    return false;
  }
  int64_t shortest = std::numeric_limits<int64_t>::max();
  int64_t longest = 0;
  int64_t all = 0;
  for (size_t i = 1; i < site.gaps.size(); ++i) {
    const IdleGap& gap = site.gaps[i];
    const int64_t work = gap.until_ns - gap.ns - site.gaps[i - 1].until_ns;
    shortest = std::min(shortest, work);
    longest = std::max(longest, work);
    all += work;
  }
  // Three at even distances leave out half of it at most; the ends of a window may be late.
  return longest / 2 <= shortest && all >= (device.times.window_ns - site.ns) / 5 * 2;
}

// That which costs most; null: none comes again.
std::optional<IdleSite> returning_of(const DeviceProfile& device) {
  std::optional<IdleSite> most;
  for (const IdleCause cause : kCauses) {
    for (IdleSite& site : single_pauses(device, of_cause(cause))) {
      if (comes_again(device, site) && (!most || site.ns > most->ns)) {
        most = std::move(site);
      }
    }
  }
  return most;
}

void tell_returning(const DeviceProfile& device, const IdleSite& site, Finding& finding) {
  const size_t count = site.gaps.size();
  const int64_t every =
      (site.gaps.back().until_ns - site.gaps.front().until_ns) / static_cast<int64_t>(count - 1);
  finding.severity = Severity::kWarning;
  finding.title =
      fmt::format("the GPU of rank {} is idle for {} in {} pauses that come again every {}",
                  device.rank.value, share_text(device, site.ns), count, ms_text(every));
  finding.where = {place_of(device.rank, site)};
  finding.values.emplace_back("returning_ns", site.ns);
  finding.values.emplace_back("returning_count", static_cast<int64_t>(count));
  finding.values.emplace_back("interval_ns", every);
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
  const std::optional<IdleSite> returning = returning_of(worst);
  if (returning && worst.share(returning->ns) >= kReturningShare) {
    tell_returning(worst, *returning, finding);
  }
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
      finding.severity == Severity::kWarning
          ? "a checkpoint or an evaluation: less often, or beside the training (async_save); else "
            "look at that line"
          : "no action if it is a checkpoint, an evaluation or start-up; else look at that line";
  return {finding};
}

}  // namespace traintrace
