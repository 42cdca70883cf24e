// NCCL reported an error by itself: who reported first is the root, the others follow.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/waiting/misuse.h"
#include "analyzer/text/values.h"

namespace traintrace {
namespace {

// In an operation of it for long, as far as is known.
bool waits_there(const Run& run, const Member& member) {
  const CommunicatorText& text = text_of(run, member);
  return !text.recent.empty() && is_in(run, member, text.collectives) &&
         elapsed(text.recent.back().enter, state_of(run, member.rank)->last_seen) >= run.hang_after;
}

void add_victims(const Run& run, const AsyncErrors& errors, Finding& finding) {
  finding.victims = errors.others;
  for (const Member& member : run.communicators[errors.communicator].members) {
    if (waits_there(run, member)) {
      insert(finding.victims, member.rank);
    }
  }
  for (const Hang& hang : run.waits.hangs) {
    if (is_async_error(run, hang) &&
        run.waits.waits[hang.wait].communicator == errors.communicator) {
      for (const Rank rank : hang.victims) {
        insert(finding.victims, rank);
      }
    }
  }
  std::erase_if(finding.victims, [&](Rank rank) { return contains(errors.first, rank); });
}

Finding finding_about(const Run& run, const AsyncErrors& errors) {
  const Communicator& communicator = run.communicators[errors.communicator];
  const std::string error = result_text("nccl", errors.error);
  Finding finding;
  finding.code = "comm.async-error";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.root = true;
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  finding.sides = {errors.first};
  if (!errors.others.empty()) {
    finding.sides.push_back(errors.others);
  }
  finding.title =
      fmt::format("NCCL reported {} on {}{}, on communicator {}", error, ranks_text(errors.first),
                  errors.others.empty() ? "" : " first", label_of(run, communicator));
  finding.certainty = errors.first.size() == 1 ? Certainty::kLikely : Certainty::kPossible;
  if (errors.first.size() == 1) {
    finding.culprits = errors.first;
  } else {
    finding.title += "; no culprit: which rank failed first is not known";
  }
  add_victims(run, errors, finding);
  for (const Ranks& side : finding.sides) {
    for (const Rank rank : side) {
      const CommunicatorText& text = text_of(run, *member_of(communicator, rank));
      finding.evidence.push_back(fmt::format(
          "rank {} got {} from NCCL{}", rank.value, result_text("nccl", text.async_error),
          text.errored == 0 ? "" : " at " + run_time(run, text.errored)));
    }
  }
  for (const Rank rank : errors.first) {
    const ProcessTrace& trace = trace_of(run, *state_of(run, rank));
    if (errors.time != 0 && trace.exited >= errors.time && trace.exit_status != 0) {
      finding.evidence.push_back(fmt::format("rank {} then exited at {} with status {}", rank.value,
                                             run_time(run, trace.exited), trace.exit_status));
    }
  }
  finding.values = {{"error", errors.error}};
  finding.advice =
      "look at NCCL's own log of that rank (NCCL_DEBUG=WARN), and at its GPU and links";
  return finding;
}

}  // namespace

std::vector<Finding> find_async_errors(const Run& run) {
  std::vector<Finding> findings;
  for (const AsyncErrors& errors : async_errors_of(run)) {
    findings.push_back(finding_about(run, errors));
  }
  return findings;
}

}  // namespace traintrace
