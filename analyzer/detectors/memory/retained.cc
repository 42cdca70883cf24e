// Memory that was there before the steps, and stays: weights, the optimizer's state.
#include <fmt/format.h>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/memory/growth/growth.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// All of it was born in the first quarter of the steps, or before them.
bool is_constant(const ProcessTrace& trace, const MemoryHistory& history, const BlockGroup& group) {
  const auto end = static_cast<int64_t>(history.steps.starts.size());
  const int64_t start = first_step(trace, history);
  return history.steps.count() >= uint64_t{kFewestGrowthSteps} &&
         history.steps.number_at(group.blocks.back().first) <=
             start + elapsed(start, end) / kGrowthBegins;
}

}  // namespace

std::vector<Finding> find_retained_memory(const Run& run, const RunMemory& all) {
  std::vector<MemorySite> sites;
  for (size_t i = 0; i < all.processes.size(); ++i) {
    const ProcessMemory& memory = all.processes[i];
    for (const std::vector<BlockGroup>* groups : {&memory.live, &memory.tensors}) {
      for (const BlockGroup& group : *groups) {
        const bool of_job = group.owner == Owner::kJob &&
                            (on_device(group.kind) || group.kind == MemoryKind::kTensor);
        if (of_job && group.bytes >= kMuchMemory && memory.history &&
            rank_on(run, i, group.device).value >= 0 &&
            is_constant(run.processes[i], *memory.history, group)) {
          sites.push_back(site_of(run, i, group));
        }
      }
    }
  }
  if (sites.empty()) {
    return {};
  }
  Finding finding = memory_finding(run, "memory.retained", std::move(sites));
  finding.certainty = Certainty::kLikely;
  finding.title = fmt::format(
      "{} kept {}{} bytes{} from early in the run to the end{}", ranks_text(finding.culprits),
      finding.culprits.size() == 1 ? "" : "up to ", finding.values.front().second,
      finding.culprits.size() == 1 ? "" : " each",
      finding.where.empty() ? ""
                            : ", most of it allocated at " + place_text(finding.where.front()));
  finding.culprits.clear();
  finding.advice = "large and constant: no leak";
  return {finding};
}

}  // namespace traintrace
