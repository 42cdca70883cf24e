// Copies from or to pageable memory, which block the host: what the GPU loses while they run with
// nothing beside them, and after them because nothing was queued.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

std::vector<IdleSite> idle_after_copies(const DeviceProfile& device) {
  return repeated_sites(device, is_after_pageable_copy);
}

std::vector<IdleSite> pageable_copies(const DeviceProfile& device) {
  return repeated_copies(device, is_pageable);
}

// Longest first.
std::vector<IdleSite> pageable_sites(const DeviceProfile& device) {
  std::vector<IdleSite> sites = idle_after_copies(device);
  for (IdleSite& copy : pageable_copies(device)) {
    sites.push_back(std::move(copy));
  }
  std::stable_sort(sites.begin(), sites.end(),
                   [](const IdleSite& a, const IdleSite& b) { return a.ns > b.ns; });
  return sites;
}

// By the host's calls alone hardly anything is known of copies, and what was idle after them may be
// all there is.
std::string pageable_title(const std::vector<LossOn>& losses, int64_t copy_ns) {
  if (copy_ns == 0) {
    return idle_text(losses) + " after copies from pageable memory, which block the host";
  }
  const LossOn& worst = losses.front();
  Ranks ranks;
  for (const LossOn& loss : losses) {
    insert(ranks, loss.device->rank);
  }
  return fmt::format(
      "the GPU{} of {} compute{} nothing for {}{} during and after copies from or to pageable "
      "memory, which block the host",
      losses.size() == 1 ? "" : "s", ranks_text(ranks), losses.size() == 1 ? "s" : "",
      worst.device->by_host ? "at least "
      : losses.size() == 1  ? ""
                            : "up to ",
      share_text(*worst.device, worst.ns));
}

}  // namespace

std::vector<Finding> find_pageable_copies(const Profile& profile) {
  const std::vector<LossOn> losses =
      idle_losses_of(profile, kWarnShare,
                     [](const DeviceProfile& device) { return sum_ns(pageable_sites(device)); });
  if (losses.empty()) {
    return {};
  }
  const DeviceProfile& worst = *losses.front().device;
  const int64_t copy_ns = sum_ns(pageable_copies(worst));
  const int64_t idle_ns = losses.front().ns - copy_ns;
  Finding finding = loss_finding("latency.pageable-copy", losses);
  finding.certainty = Certainty::kProof;
  finding.title = pageable_title(losses, copy_ns);
  finding.values = {{"lost_ns", losses.front().ns},
                    {"lost_percent", percent_of(worst, losses.front().ns)},
                    {"idle_ns", idle_ns},
                    {"idle_percent", percent_of(worst, idle_ns)},
                    {"exposed_ns", copy_ns}};
  if (worst.steps > 1) {
    finding.values.emplace_back("lost_ns_per_step", worst.per_step(losses.front().ns));
  }
  finding.values.emplace_back("blocked_ns", worst.blocked_ns);
  add_sites(losses, pageable_sites, finding);
  finding.advice =
      worst.by_host && copy_ns == 0
          ? "shorten what the host does from that line to its next launch (data loading, logging, "
            "Python), or launch the next work before that call"
          : "pin the host memory (pin_memory=True) and copy with non_blocking=True";
  return {finding};
}

}  // namespace traintrace
