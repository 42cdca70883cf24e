// Memory that was still there when the process ended by itself, by stack.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/memory/growth/growth.h"

namespace traintrace {
namespace {

bool ended_normally(const ProcessTrace& trace) {
  return trace.exit_kind == format::kExit && trace.exit_status == 0;
}

// The job frees at its end what it had all along: it meant to free this too.  Else it leaves its
// memory to the end of the process, as many do.  What grows with every step has a finding of its
// own.
bool is_forgotten(const MemoryHistory& history, const GrowthJudge& judge, const BlockGroup& group) {
  return history.cleans_up && !judge.growth_of(group);
}

struct Left {
  std::vector<MemorySite> forgotten;
  std::vector<MemorySite> kept;
};

Left left_behind(const Run& run, const RunMemory& all, bool pinned) {
  Left left;
  for (size_t i = 0; i < all.processes.size(); ++i) {
    const ProcessMemory& memory = all.processes[i];
    const bool may_forget = ended_normally(run.processes[i]) && memory.history;
    const auto judge =
        may_forget ? std::optional<GrowthJudge>(std::in_place, run.processes[i], *memory.history)
                   : std::nullopt;
    for (const BlockGroup& group : memory.live) {
      const bool is_kind = pinned ? group.kind == MemoryKind::kPinned : on_device(group.kind);
      if (!ended_normally(run.processes[i]) || group.owner != Owner::kJob || !is_kind ||
          rank_on(run, i, group.device).value < 0) {
        continue;
      }
      const bool forgotten = judge && is_forgotten(*memory.history, *judge, group);
      (forgotten ? left.forgotten : left.kept).push_back(site_of(run, i, group));
    }
  }
  return left;
}

std::vector<Finding> find_left(const Run& run, const RunMemory& memory, std::string_view code,
                               bool pinned) {
  const Left left = left_behind(run, memory, pinned);
  if (left.forgotten.empty() && left.kept.empty()) {
    return {};
  }
  const bool leaks = !left.forgotten.empty();
  Finding finding = memory_finding(run, code, leaks ? left.forgotten : left.kept);
  const Rank first = finding.culprits.front();
  finding.title = fmt::format(
      "{} ended without freeing {}{} bytes of {}{}", ranks_text(finding.culprits),
      finding.culprits.size() == 1 ? "" : "up to ", finding.values.front().second,
      pinned ? "pinned memory" : "device memory",
      finding.where.empty() ? "" : " allocated at " + place_text(finding.where.front()));
  if (leaks) {
    finding.values.emplace_back("kept_bytes", signed_bytes(bytes_of(left.kept, first)));
    finding.advice = "free it where its last use is over";
  } else {
    finding.severity = Severity::kInfo;
    finding.culprits.clear();
    finding.advice = "nothing to do at the end of a job: the driver takes it back";
  }
  return {finding};
}

}  // namespace

std::vector<Finding> find_memory_left(const Run& run, const RunMemory& memory) {
  return find_left(run, memory, "memory.leak-at-exit", false);
}

std::vector<Finding> find_pinned_memory_left(const Run& run, const RunMemory& memory) {
  return find_left(run, memory, "memory.pinned-leak", true);
}

}  // namespace traintrace
