// A rank captured into a graph, and never launched, what the others run.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/blame.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/tense.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/waiting/hang_cause.h"

namespace traintrace {
namespace {

std::string how_text(const ProcessTrace& trace, const Member& member, const OperationText& own) {
  const auto place = user_place(trace, member.rank, own.stack);
  return fmt::format("captured {}{} into a graph", call_name(trace, own.call),
                     place ? " at " + place_text(*place) : "");
}

// Whether the others run it from a graph too.
std::string others_text(const Run& run, const Wait& wait) {
  const bool replayed = (wait.details.flags & format::kReplayed) != 0;
  return fmt::format("{} in {}, which {}", waiting_text(run, wait), operation_text(run, wait),
                     replayed ? "they launched with a graph" : "they called outside of any graph");
}

Finding capture_finding(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  Finding finding = hang_finding(run, hang, "collective.capture-divergence");
  finding.where.clear();
  for (const Rank rank : hang.roots) {
    const Member& member = *member_of(run.communicators[wait.communicator], rank);
    const ProcessTrace& trace = run.processes[member.process];
    const OperationText& own = *unlaunched_capture(run, member);
    if (finding.title.empty()) {
      finding.title = fmt::format("{} {}, and {} not launched that graph since; {}",
                                  ranks_text(hang.roots), how_text(trace, member, own),
                                  hang.roots.size() == 1 ? "has" : "have", others_text(run, wait));
    }
    if (const auto place = user_place(trace, rank, own.stack)) {
      finding.where.push_back(*place);
    }
  }
  const Waiter& first = wait.waiters.front();
  if (const auto place = user_place(run.processes[first.process], first.rank, first.stack)) {
    finding.where.push_back(*place);
  }
  finding.certainty = Certainty::kLikely;
  blame_minority(hang, finding, "as many captured it as called it, or more");
  finding.advice =
      "what is captured does not run: launch the graph where the others run the operation, and let "
      "all ranks take the same way";
  return finding;
}

}  // namespace

std::vector<Finding> find_capture_divergence(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (cause_of(run, hang) == Cause::kUnlaunched) {
      findings.push_back(capture_finding(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
