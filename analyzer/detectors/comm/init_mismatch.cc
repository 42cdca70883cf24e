// Ranks contradict each other when they create a communicator.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/divergence/creations.h"
#include "analyzer/text/values.h"

namespace traintrace {
namespace {

const char* subject_of(CreationFault fault) {
  switch (fault) {
    case CreationFault::kSize:
      return "ranks were told different sizes of one communicator";
    case CreationFault::kRank:
      return "two ranks claim one place in a communicator";
    case CreationFault::kId:
      return "ranks that wait for each other in the creation of a communicator were given "
             "different "
             "unique ids";
    case CreationFault::kOrder:
      return "ranks create two communicators in different orders, and wait for each other in the "
             "first";
    case CreationFault::kDevice:
      return "two ranks of a communicator use one device";
  }
  return "";
}

std::string sides_text(const CreationMismatch& mismatch) {
  std::string text;
  for (const CreationMismatch::Side& side : mismatch.sides) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", ranks_text(side.ranks), side.said);
  }
  return text;
}

std::string title_of(const CreationMismatch& mismatch) {
  const char* const open = mismatch.culprits.empty() ? "; no culprit" : "";
  if (mismatch.fault != CreationFault::kRank) {
    return fmt::format("{}: {}{}", subject_of(mismatch.fault), sides_text(mismatch), open);
  }
  Ranks ranks;  // all say the same
  for (const CreationMismatch::Side& side : mismatch.sides) {
    for (const Rank rank : side.ranks) {
      insert(ranks, rank);
    }
  }
  return fmt::format("{} claim one place in a communicator, {}{}", ranks_text(ranks),
                     mismatch.sides.front().said, open);
}

void add_places(const Run& run, const CreationMismatch& mismatch, Finding& finding) {
  const auto add = [&](Rank rank) {
    for (const size_t index : {mismatch.communicator, mismatch.other}) {
      const Member* member = member_of(run.communicators[index], rank);
      const auto place = member == nullptr ? std::nullopt
                                           : user_place(run.processes[member->process], rank,
                                                        text_of(run, *member).created_stack);
      if (place) {
        finding.where.push_back(*place);
        return;
      }
    }
  };
  std::for_each(mismatch.culprits.begin(), mismatch.culprits.end(), add);
  if (!mismatch.waiting.empty()) {
    add(mismatch.waiting.front());
  }
}

Finding finding_about(const Run& run, const CreationMismatch& mismatch) {
  const Communicator& communicator = run.communicators[mismatch.communicator];
  Finding finding;
  finding.code = "comm.init-mismatch";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.root = true;
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  finding.culprits = mismatch.culprits;
  finding.victims = mismatch.waiting;
  for (const CreationMismatch::Side& side : mismatch.sides) {
    finding.sides.push_back(side.ranks);
  }
  finding.title = title_of(mismatch);
  if (mismatch.error != 0) {
    finding.evidence.push_back("NCCL answered " + result_text("nccl", mismatch.error));
    finding.values.emplace_back("error", mismatch.error);
  }
  if (mismatch.waited > 0) {
    finding.evidence.push_back(fmt::format("{} waited in the creation, for {}",
                                           ranks_text(mismatch.waiting), seconds(mismatch.waited)));
    finding.values.emplace_back("waited_ns", mismatch.waited);
  }
  add_places(run, mismatch, finding);
  finding.advice = mismatch.fault == CreationFault::kOrder
                       ? "create communicators in the same order on all ranks"
                       : "look at what ranks, sizes, unique ids and devices are computed from";
  return finding;
}

}  // namespace

std::vector<Finding> find_creation_mismatch(const Run& run) {
  std::vector<Finding> findings;
  for (const CreationMismatch& mismatch : creation_mismatches(run)) {
    findings.push_back(finding_about(run, mismatch));
  }
  return findings;
}

}  // namespace traintrace
