// A cycle over communicators on which different threads of a rank issue: whoever comes first.
#include <fmt/format.h>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/waiting/hang_cause.h"

namespace traintrace {
namespace {

Finding launch_order_finding(const Run& run, const Hang& hang) {
  Finding finding = hang_finding(run, hang, "collective.launch-order-race");
  Ranks threaded;
  for (const Rank rank : hang.roots) {
    if (issues_from_threads(run, hang, rank)) {
      threaded.push_back(rank);
    }
  }
  finding.sides.clear();
  std::string waits;
  for (const Wait& wait : run.waits.waits) {
    Ranks side;
    for (const Waiter& waiter : wait.waiters) {
      side.push_back(waiter.rank);
    }
    const Communicator& communicator = run.communicators[wait.communicator];
    finding.sides.push_back(side);
    finding.communicators.push_back({communicator.id, communicator.name, communicator.size});
    waits += fmt::format("{}{} in {}", waits.empty() ? "" : "; ", ranks_text(side),
                         operation_text(run, wait));
  }
  finding.title = fmt::format(
      "{} wait for each other: {}.  On {} different threads issue on these "
      "communicators, in whatever order they come: no culprit",
      ranks_text(hang.roots), waits, ranks_text(threaded));
  finding.certainty = Certainty::kPossible;
  finding.advice =
      "let one thread issue on all communicators, or let the threads take turns in an order that "
      "is the same on all ranks";
  return finding;
}

}  // namespace

std::vector<Finding> find_launch_order_races(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (cause_of(run, hang) == Cause::kThreads) {
      findings.push_back(launch_order_finding(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
