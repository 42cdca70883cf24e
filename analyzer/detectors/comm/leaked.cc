// A process ended normally with communicators that it had not destroyed.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/process/ending.h"

namespace traintrace {
namespace {

Ranks left_by(const Run& run, const Communicator& communicator) {
  Ranks ranks;
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    const RankState* state = state_of(run, member.rank);
    if (state != nullptr && exited_normally(run, *state) && text.ended == 0 &&
        text.origin != format::kUnknownOrigin && (text.flags & format::kInitDone) != 0 &&
        (text.flags & format::kNoColor) == 0) {
      ranks.push_back(member.rank);
    }
  }
  return ranks;
}

// A program that destroys none leaves that to its end, and everybody knows.
bool destroys_some(const Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(), [](const ProcessTrace& trace) {
    return std::any_of(
        trace.communicators.begin(), trace.communicators.end(),
        [](const CommunicatorText& text) { return (text.flags & format::kDestroyed) != 0; });
  });
}

}  // namespace

std::vector<Finding> find_leaked(const Run& run) {
  std::vector<Finding> findings;
  if (!destroys_some(run)) {
    return findings;
  }
  for (const Communicator& communicator : run.communicators) {
    const Ranks ranks = left_by(run, communicator);
    if (ranks.empty()) {
      continue;
    }
    Finding finding;
    finding.code = "comm.leaked";
    finding.severity = catalogue_row(finding.code)->severity;
    finding.communicator = {communicator.id, communicator.name, communicator.size};
    finding.sides = {ranks};
    finding.title = fmt::format("{} ended without destroying communicator {}", ranks_text(ranks),
                                label_of(run, communicator));
    finding.advice =
        "nothing to do at the end of a job; else call ncclCommDestroy "
        "(destroy_process_group)";
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace traintrace
