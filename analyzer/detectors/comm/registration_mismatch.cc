// Ranks are inside the registration of a window that others have not called, or call otherwise.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/detectors/hang/sides_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/divergence/majority.h"
#include "analyzer/model/divergence/registrations.h"

namespace traintrace {
namespace {

Sides sides_of(const RegistrationMismatch& mismatch) {
  Sides sides;
  for (const Registration& one : mismatch.waiting) {
    insert(sides[fmt::format("registered {} bytes, flags {:#x}", one.bytes, one.flags)], one.rank);
  }
  if (!mismatch.missing.empty()) {
    sides["have not called it"] = mismatch.missing;
  }
  return sides;
}

void add_places(const Run& run, const RegistrationMismatch& mismatch, Finding& finding) {
  add_lines(last_call_lines(run, mismatch.missing), finding.evidence);
  const Registration& first = mismatch.waiting.front();
  if (auto place = user_place(run.processes[first.process], first.rank, first.stack)) {
    finding.where.push_back(std::move(*place));
  }
}

Finding finding_about(const Run& run, const RegistrationMismatch& mismatch) {
  const Communicator& communicator = run.communicators[mismatch.communicator];
  const Sides sides = sides_of(mismatch);
  Finding finding = sides_finding(communicator, sides, "comm.registration-mismatch");
  finding.root = true;
  finding.certainty = Certainty::kLikely;
  finding.operation = "ncclCommWindowRegister";
  finding.culprits = outvoted(sides);
  for (const Registration& one : mismatch.waiting) {
    if (!contains(finding.culprits, one.rank)) {
      insert(finding.victims, one.rank);
    }
  }
  const std::string what =
      mismatch.missing.empty()
          ? "ranks register windows of different sizes together"
          : fmt::format("{} never called ncclCommWindowRegister", ranks_text(mismatch.missing));
  finding.title = fmt::format(
      "{} on communicator {}; {} rank{} wait{} in it{}", what, label_of(run, communicator),
      mismatch.waiting.size(), mismatch.waiting.size() == 1 ? "" : "s",
      mismatch.waiting.size() == 1 ? "s" : "", finding.culprits.empty() ? "; no culprit" : "");
  for (const auto& [text, ranks] : sides) {
    finding.evidence.push_back(fmt::format("{}: {}", ranks_text(ranks), text));
  }
  finding.values = {{"waited_ns", mismatch.waited}};
  add_places(run, mismatch, finding);
  finding.advice = "let all ranks of the communicator register windows of one size together";
  return finding;
}

}  // namespace

std::vector<Finding> find_window_mismatch(const Run& run) {
  std::vector<Finding> findings;
  for (const RegistrationMismatch& mismatch : registration_mismatches(run)) {
    findings.push_back(finding_about(run, mismatch));
  }
  return findings;
}

}  // namespace traintrace
