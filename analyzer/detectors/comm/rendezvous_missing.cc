// Ranks wait in a store, before there is any communicator, for somebody who has not come there.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/waiting/rendezvous.h"

namespace traintrace {
namespace {

const ThreadNow& thread_of(const Run& run, Rank rank) {
  return *working_thread(run, *state_of(run, rank));
}

std::string waiting_ranks(const Rendezvous& rendezvous) {
  return fmt::format("{} wait{} in the store, before there is any communicator",
                     ranks_text(rendezvous.waiting), rendezvous.waiting.size() == 1 ? "s" : "");
}

std::string stand_text(const Run& run, Rank rank) {
  const ThreadNow& thread = thread_of(run, rank);
  const auto place = place_now(thread, rank);
  return fmt::format("rank {} {}{}", rank.value, doing_text(thread),
                     place ? " at " + place_text(*place) : "");
}

std::string title_of(const Run& run, const Rendezvous& rendezvous) {
  if (!rendezvous.elsewhere.empty()) {
    return fmt::format("{} never came to the rendezvous: {}; {}", ranks_text(rendezvous.elsewhere),
                       stand_text(run, rendezvous.elsewhere.front()), waiting_ranks(rendezvous));
  }
  if (!rendezvous.gone.empty()) {
    return fmt::format("{} ended, or left no trace; {}", ranks_text(rendezvous.gone),
                       waiting_ranks(rendezvous));
  }
  return fmt::format(
      "all ranks wait in the store, before there is any communicator: no rank sets "
      "what they wait for, or its server does not answer");
}

// It may wait for another rank by ways that are not seen.
bool waits_for_another(const ThreadNow& thread) {
  return thread.waiting == Waiting::kSocket || thread.waiting == Waiting::kPipe;
}

void blame(const Run& run, const Rendezvous& rendezvous, Finding& finding) {
  const bool own_reason =
      std::none_of(rendezvous.elsewhere.begin(), rendezvous.elsewhere.end(),
                   [&](Rank rank) { return waits_for_another(thread_of(run, rank)); });
  finding.certainty = Certainty::kPossible;
  if (!rendezvous.elsewhere.empty() && own_reason && rendezvous.gone.empty() &&
      rendezvous.elsewhere.size() < rendezvous.waiting.size()) {
    finding.certainty = Certainty::kLikely;
    finding.culprits = rendezvous.elsewhere;
  } else {
    finding.title += "; no culprit";
  }
}

void add_ranks(const Run& run, const Ranks& ranks, Finding& finding) {
  for (size_t i = 0; i < std::min(ranks.size(), kEvidenceLines); ++i) {
    finding.evidence.push_back(stand_text(run, ranks[i]));
    if (const auto place = place_now(thread_of(run, ranks[i]), ranks[i])) {
      finding.where.push_back(*place);
    }
  }
}

Finding finding_about(const Run& run, const Rendezvous& rendezvous) {
  Finding finding;
  finding.code = "comm.rendezvous-missing";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.root = true;
  finding.victims = rendezvous.waiting;
  for (const Ranks& side : {rendezvous.elsewhere, rendezvous.gone, rendezvous.waiting}) {
    if (!side.empty()) {
      finding.sides.push_back(side);
    }
  }
  finding.title = title_of(run, rendezvous);
  blame(run, rendezvous, finding);
  add_ranks(run, rendezvous.elsewhere, finding);
  add_ranks(run, {rendezvous.waiting.front()}, finding);
  if (contains(rendezvous.elsewhere, Rank{0})) {
    finding.evidence.emplace_back("as a rule rank 0 makes the id that the others wait for");
  }
  finding.values = {{"silent_ns", rendezvous.silent}};
  finding.advice =
      "look at what the ranks outside the store do; MASTER_ADDR and port must lead all of them to "
      "one store, and WORLD_SIZE be the number of those that come";
  return finding;
}

}  // namespace

std::vector<Finding> find_missing_rendezvous(const Run& run) {
  std::vector<Finding> findings;
  if (const auto rendezvous = stuck_rendezvous(run)) {
    findings.push_back(finding_about(run, *rendezvous));
  }
  return findings;
}

}  // namespace traintrace
