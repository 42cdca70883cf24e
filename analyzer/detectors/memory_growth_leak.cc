// Memory of one stack that becomes more with every step.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "analyzer/detectors/hang_finding.h"
#include "analyzer/detectors/memory_detectors.h"
#include "analyzer/detectors/memory_finding.h"
#include "analyzer/memory/growth.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

struct GrowingSite {
  MemorySite site;
  Growth growth;
  bool scalars = false;
};

bool can_leak(const BlockGroup& group) {
  return group.owner == Owner::kJob &&
         (on_device(group.kind) || group.kind == MemoryKind::kPinned ||
          group.kind == MemoryKind::kTensor);
}

bool holds_scalars(const BlockGroup& group) {
  return group.kind == MemoryKind::kTensor &&
         group.bytes == kSmallestTensor * group.blocks.size() && group.bytes < kMuchMemory;
}

std::string since_text(const Run& run, const Growth& growth) {
  const std::string time = fmt::format(" since {}", run_time(run, growth.since));
  return growth.since_step > 0 ? fmt::format("{}, step {}", time, growth.since_step) : time;
}

std::vector<GrowingSite> growing_sites(const Run& run, const RunMemory& all) {
  std::vector<GrowingSite> found;
  for (size_t i = 0; i < all.processes.size(); ++i) {
    const ProcessMemory& memory = all.processes[i];
    for (const std::vector<BlockGroup>* groups : {&memory.live, &memory.tensors}) {
      for (const BlockGroup& group : *groups) {
        const bool counts =
            memory.history && can_leak(group) && rank_on(run, i, group.device).value >= 0;
        const auto growth =
            counts ? growth_of(run.processes[i], *memory.history, group) : std::nullopt;
        if (growth) {
          found.push_back({site_of(run, i, group), *growth, holds_scalars(group)});
          found.back().site.text += since_text(run, *growth);
        }
      }
    }
  }
  return found;
}

// One place that adds one smallest block at a time: meant, as likely as not.
bool is_a_list_of_scalars(const std::vector<GrowingSite>& growing) {
  return std::all_of(growing.begin(), growing.end(), [&](const GrowingSite& entry) {
    return entry.scalars && std::count_if(growing.begin(), growing.end(), [&](const auto& other) {
                              return other.site.process == entry.site.process;
                            }) == 1;
  });
}

}  // namespace

std::vector<Finding> find_growth_leaks(const Run& run, const RunMemory& memory) {
  const std::vector<GrowingSite> growing = growing_sites(run, memory);
  if (growing.empty()) {
    return {};
  }
  std::vector<MemorySite> sites;
  sites.reserve(growing.size());
  for (const GrowingSite& entry : growing) {
    sites.push_back(entry.site);
  }
  Finding finding = memory_finding(run, "memory.growth-leak", sites);
  const Rank first = finding.culprits.front();
  uint64_t per_step = 0;
  uint64_t steps = 0;
  int64_t since = std::numeric_limits<int64_t>::max();
  for (const GrowingSite& entry : growing) {
    if (entry.site.rank == first) {
      per_step = sum_of(per_step, entry.growth.bytes_per_step);
      steps = std::max(steps, entry.growth.step_count);
      since = std::min(since, entry.growth.since_step);
    }
  }
  // That it goes on like this was seen, and that nobody will ever free it was not.
  finding.certainty = Certainty::kLikely;
  finding.root = true;
  if (is_a_list_of_scalars(growing)) {
    finding.severity = Severity::kInfo;
    finding.root = false;
    finding.culprits.clear();
  }
  finding.title = fmt::format(
      "memory of {} grows with every step: by {} bytes on rank {}, {} in all, {}",
      ranks_text(finding.sides.front()), per_step, first.value, finding.values.front().second,
      finding.where.empty() ? "from an unknown place"
                            : "allocated at " + place_text(finding.where.front()));
  finding.values.emplace_back("bytes_per_step", signed_bytes(per_step));
  finding.values.emplace_back("step_count", signed_bytes(steps));
  if (since > 0) {
    finding.values.emplace_back("steps_before_count", since - 1);
  }
  finding.advice =
      "free it at the end of the step; in Python, look for what still refers to it: a list that is "
      "appended to, a loss that keeps its graph (use .item() or .detach())";
  return {finding};
}

}  // namespace traintrace
