// Pinned memory that was rounded up to a power of two, and is not used beyond what was asked for.
#include <fmt/format.h>

#include <map>

#include "analyzer/detectors/memory/allocator_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/memory/memory_use.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// By stack, those of which a quarter or more was never copied to or from.
std::map<uint32_t, MemorySite> wasted_in(const ProcessTrace& trace) {
  std::map<uint32_t, MemorySite> sites;
  for (const PinnedUse& use : pinned_uses(trace)) {
    if (owner_of(trace, use.stack) == Owner::kTorch && use.bytes - use.used >= use.bytes / 4) {
      MemorySite& site = sites[use.stack];
      site.stack = use.stack;
      site.bytes += use.bytes - use.used;
      ++site.count;
    }
  }
  return sites;
}

}  // namespace

std::vector<Finding> find_pinned_waste(const Run& run, const RunMemory& memory) {
  std::vector<MemorySite> sites;
  for (size_t i = 0; i < memory.processes.size(); ++i) {
    const auto& history = memory.processes[i].history;
    const Rank rank = rank_on(run, i, -1);
    if (!history || !history->whole || rank.value < 0) {
      continue;  // a copy that was lost may have used all of it
    }
    std::map<uint32_t, MemorySite> wasted = wasted_in(run.processes[i]);
    uint64_t bytes = 0;
    for (const auto& [stack, site] : wasted) {
      bytes = sum_of(bytes, site.bytes);
    }
    for (auto& [stack, site] : wasted) {
      if (bytes >= kMuchMemory) {
        site.rank = rank;
        site.process = i;
        site.text = fmt::format("{} bytes of {} pinned blocks that no copy came to", site.bytes,
                                site.count);
        sites.push_back(site);
      }
    }
  }
  if (sites.empty()) {
    return {};
  }
  Finding finding = memory_finding(run, "memory.pinned-waste", sites);
  finding.certainty = Certainty::kLikely;
  finding.title = fmt::format(
      "pinned memory of {} is rounded up to powers of two: up to {} bytes are not used{}",
      ranks_text(finding.culprits), finding.values.front().second, at_place(finding));
  finding.advice =
      "PyTorch rounds each pinned block up: pin sizes at or just below a power of "
      "two, or one large buffer for many tensors";
  return {finding};
}

}  // namespace traintrace
