// Ranks wait, and nothing that was found explains why; or for how long is not known.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang_finding.h"
#include "analyzer/model/elapsed.h"

namespace traintrace {
namespace {

constexpr size_t kMostWaits = 8;

bool is_explained(const Run& run) {
  return !run.waits.hangs.empty() || !run.waits.stalls.empty() ||
         std::any_of(run.divergences.begin(), run.divergences.end(),
                     [](const Divergence& one) { return !is_harmless(one.kind); });
}

// Made by the watchdog, or by somebody who found the job hung: else ranks wait all the time.
bool is_of_dumps(const Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(),
                     [](const ProcessTrace& trace) { return trace.facts.contains("dump-time"); });
}

Finding finding_about(const Run& run) {
  Finding finding;
  finding.code = "run.unexplained";
  finding.severity = Severity::kWarning;
  finding.certainty = Certainty::kPossible;
  finding.root = true;
  TimeNs longest = 0;
  size_t lines = 0;
  for (const Wait& wait : run.waits.waits) {
    for (const Waiter& waiter : wait.waiters) {
      insert(finding.victims, waiter.rank);
      longest = std::max(longest, elapsed(waiter.since, waiter.until));
    }
    if (++lines <= kMostWaits) {
      finding.evidence.push_back(wait_text(run, wait));
    }
  }
  const std::string who = finding.victims.empty()
                              ? "operations are in flight"
                              : fmt::format("{} wait{}", ranks_text(finding.victims),
                                            finding.victims.size() == 1 ? "s" : "");
  if (run.waits.undated) {
    finding.title = who +
                    ", and whether that is a hang is not known: nothing says when these dumps were "
                    "written";
    finding.advice =
        "copy dumps with their times (cp -p, rsync -t, tar); if the job hung, say so with "
        "--hang-after=5s; or record with TORCH_NCCL_ENABLE_TIMING=1, which dates them";
  } else {
    finding.title = who + ", and what was recorded does not show for which rank";
    finding.advice =
        "record more: a larger TORCH_FR_BUFFER_SIZE (TORCH_NCCL_TRACE_BUFFER_SIZE before 2.9), and "
        "the dumps of all ranks";
  }
  finding.values = {{"waited_ns", longest}};
  return finding;
}

}  // namespace

std::vector<Finding> find_unexplained(const Run& run) {
  const bool waits = !run.waits.waits.empty() || run.waits.undated;
  return run.waits.by_frontier && waits && is_of_dumps(run) && !is_explained(run)
             ? std::vector<Finding>{finding_about(run)}
             : std::vector<Finding>{};
}

}  // namespace traintrace
