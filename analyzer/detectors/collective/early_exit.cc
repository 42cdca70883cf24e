// A rank ended by itself, by whatever status, while others go on and wait for it.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/blame.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/waiting/hang_cause.h"

namespace traintrace {
namespace {

int status_of(const Run& run, Rank rank) {
  return trace_of(run, *state_of(run, rank)).exit_status;
}

bool failed(const Run& run, const Hang& hang) {
  return std::any_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return status_of(run, rank) != 0; });
}

std::string early_exit_title(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  const Rank first = hang.roots.front();
  const Member* member = member_of(run.communicators[wait.communicator], first);
  const uint64_t count = member == nullptr ? 0 : text_of(run, *member).collectives;
  const std::string after =
      wait.kind == WaitKind::kCollective
          ? fmt::format(" after {} collective{}", count, count == 1 ? "" : "s")
          : "";
  return fmt::format("{} exited with status {}{}; {} for {} in {}{}", ranks_text(hang.roots),
                     status_of(run, first), after, waiting_text(run, hang),
                     hang.roots.size() == 1 ? "it" : "them", operation_text(run, wait),
                     further_text(run, hang));
}

Certainty early_exit_certainty(const Run& run, const Hang& hang) {
  if (hang.fate == Fate::kPerhapsExited) {
    return Certainty::kPossible;
  }
  return hang.entered || doubts_about(run, hang).any() ? Certainty::kLikely : Certainty::kProof;
}

// What it called last of all is often the teardown of its interpreter.
void say_where_it_was(const Run& run, const Hang& hang, Finding& finding) {
  std::vector<CodePlace> places;
  for (size_t i = 0; i < std::min(hang.roots.size(), kEvidenceLines); ++i) {
    const Rank rank = hang.roots[i];
    const RankState& state = *state_of(run, rank);
    const bool is_placed = std::any_of(finding.where.begin(), finding.where.end(),
                                       [&](const CodePlace& place) { return place.rank == rank; });
    const auto last =
        is_placed ? std::nullopt : last_placed_call(run, rank, trace_of(run, state).exited);
    if (last) {
      places.push_back(last->place);
      finding.evidence.push_back(fmt::format("rank {}: its last call from a line of Python was {}",
                                             rank.value, placed_text(run, *last)));
    }
  }
  finding.where.insert(finding.where.begin(), places.begin(), places.end());
}

void say_how_it_exited(const Run& run, const Hang& hang, Finding& finding) {
  for (const Rank rank : hang.roots) {
    const ProcessTrace& trace = trace_of(run, *state_of(run, rank));
    finding.evidence.push_back(
        fmt::format("rank {}, process {} on {}, exited at {} with status {}, by {}", rank.value,
                    trace.pid, trace.host, run_time(run, trace.exited), trace.exit_status,
                    trace.exit_kind == format::kFastExit ? "_exit" : "exit or the end of main"));
    const auto waited = run.given_up.find(rank);
    if (waited != run.given_up.end() && trace.exit_status != 0) {
      finding.evidence.push_back(fmt::format(
          "rank {} had waited for {} in {}, which {} had not entered: it may have given up",
          rank.value, seconds(waited->second.waited), operation_text(run, waited->second.wait),
          ranks_text(waited->second.missing)));
    }
    if (finding.evidence.size() > 24) {
      return;
    }
  }
}

}  // namespace

std::vector<Finding> find_early_exit(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    const bool ended = hang.fate == Fate::kExited || hang.fate == Fate::kPerhapsExited;
    if (!ended || !hang.divergences.empty() || cause_of(run, hang) != Cause::kNotSeen) {
      continue;
    }
    Finding finding = hang_finding(run, hang, "collective.early-exit");
    finding.title = early_exit_title(run, hang);
    finding.certainty = early_exit_certainty(run, hang);
    finding.values.emplace_back("status", status_of(run, hang.roots.front()));
    say_where_it_was(run, hang, finding);
    say_how_it_exited(run, hang, finding);
    // A failure is nobody else's choice; a normal end is judged by what the others did.
    if (hang.fate == Fate::kExited && failed(run, hang)) {
      finding.culprits = hang.roots;
    } else if (hang.fate == Fate::kExited) {
      blame_missing_roots(run, hang, finding, "as many ended as go on, or more");
    }
    finding.advice =
        failed(run, hang)
            ? "look at the error that ended it in its own output"
            : "make all ranks make the same number of calls: uneven data or a condition that "
              "differs between ranks ends the loop early, or an exception that is "
              "caught, a `continue` or no_sync leaves one out";
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace traintrace
