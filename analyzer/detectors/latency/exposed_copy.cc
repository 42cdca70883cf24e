// Copies and sets of memory beside which the GPU neither computes nor communicates, in each step.
// Those from or to pageable memory have a finding of their own.
#include <fmt/format.h>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

std::vector<IdleSite> bare_copies(const DeviceProfile& device) {
  return repeated_copies(device, [](const IdleSite& copy) { return !is_pageable(copy); });
}

// Between host and GPU a copy can run beside kernels; on the GPU it had better not be made.
bool crosses_the_bus(const IdleSite& copy) {
  return copy.copy.find("HtoD") != copy.copy.npos || copy.copy.find("DtoH") != copy.copy.npos;
}

}  // namespace

std::vector<Finding> find_exposed_copies(const Profile& profile) {
  const std::vector<LossOn> losses =
      losses_of(profile, kWarnShare, [](const DeviceProfile& device) {
        // Where work is missing, all copies look exposed.
        return is_attributed(device) ? sum_ns(bare_copies(device)) : int64_t{0};
      });
  if (losses.empty()) {
    return {};
  }
  const DeviceProfile& worst = *losses.front().device;
  Finding finding = loss_finding("latency.exposed-copy", losses);
  finding.certainty = Certainty::kProof;
  finding.title = fmt::format("{} of {} is copies beside which nothing is computed",
                              share_text(worst, losses.front().ns), ranks_text(finding.culprits));
  finding.values = {{"exposed_ns", losses.front().ns},
                    {"exposed_percent", percent_of(worst, losses.front().ns)},
                    {"copy_ns", worst.times.memory_ns}};
  if (worst.steps > 1) {
    finding.values.emplace_back("exposed_ns_per_step", worst.per_step(losses.front().ns));
  }
  add_sites(losses, bare_copies, finding);
  finding.advice =
      crosses_the_bus(bare_copies(worst).front())
          ? "copy on a stream of its own while the step before computes (prefetching, "
            "non_blocking=True from pinned memory), or copy less"
          : "make fewer copies on the GPU: reuse buffers, avoid clone(), contiguous() and zero_(), "
            "or fuse them with what computes (torch.compile)";
  return {finding};
}

}  // namespace traintrace
