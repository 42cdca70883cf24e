// A rank left out a split of a communicator, or made one too many: its next one met theirs.
#include <fmt/format.h>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/divergence/splits.h"

namespace traintrace {
namespace {

void add_places(const Run& run, const SplitMismatch& mismatch, Finding& finding) {
  const ProcessTrace& trace = run.processes[mismatch.called.process];
  const uint32_t stack = text_of(run, mismatch.called).created_stack;
  if (auto place = user_place(trace, mismatch.called.rank, stack)) {
    finding.evidence.push_back(
        fmt::format("rank {} called it at {}", mismatch.called.rank.value, place_text(*place)));
    finding.where.push_back(std::move(*place));
  }
}

Finding finding_about(const Run& run, const SplitMismatch& mismatch) {
  const Communicator& parent = run.communicators[mismatch.parent];
  Finding finding;
  finding.code = "comm.split-mismatch";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.root = true;
  finding.communicator = {parent.id, parent.name, parent.size};
  finding.operation = "ncclCommSplit";
  finding.culprits = mismatch.deviants;
  finding.sides = {mismatch.deviants, mismatch.others};
  finding.certainty = Certainty::kLikely;
  const std::string& name = text_of(run, mismatch.called).name;
  finding.title =
      fmt::format("{} {} ncclCommSplit #{} of communicator {}{}", ranks_text(mismatch.deviants),
                  mismatch.extra ? "made an extra" : "left out", mismatch.ordinal,
                  label_of(run, parent), name.empty() ? "" : ", which makes " + name);
  for (const Rank rank : mismatch.waiting) {
    if (!contains(mismatch.deviants, rank)) {
      finding.victims.push_back(rank);
    }
  }
  finding.values = {{"split_count", static_cast<int64_t>(mismatch.length)}};
  if (mismatch.waited > 0) {
    finding.values.emplace_back("waited_ns", mismatch.waited);
  }
  add_places(run, mismatch, finding);
  finding.evidence.push_back(
      "the n-th split of each rank meets the n-th of all others: from there on, communicators have "
      "members that were not meant");
  finding.advice =
      "let all ranks of a communicator make the same splits in one order, those that are to be in "
      "none of the parts with NCCL_SPLIT_NOCOLOR";
  return finding;
}

}  // namespace

std::vector<Finding> find_split_mismatch(const Run& run) {
  std::vector<Finding> findings;
  for (const SplitMismatch& mismatch : split_mismatches(run)) {
    findings.push_back(finding_about(run, mismatch));
  }
  return findings;
}

}  // namespace traintrace
