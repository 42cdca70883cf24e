#include "analyzer/detectors/memory/caught_shortages.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/memory/allocator/shortage.h"
#include "analyzer/memory/holders/who_held.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

// PyTorch's own word for an exception; what the device refuses may be had at the second attempt.
const OutOfMemoryText* last_exception(const ProcessTrace& trace) {
  const OutOfMemoryText* last = nullptr;
  for (const OutOfMemoryText& failure : trace.out_of_memory) {
    const CallSchema* const schema = schema_of(trace, failure.call);
    last = schema != nullptr && schema->kind.starts_with("tensor-") ? &failure : last;
  }
  return last;
}

const OutOfMemoryText* last_exception_of(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  return state == nullptr ? nullptr : last_exception(trace_of(run, *state));
}

std::string shortage_text(const Run& run, Rank rank, const OutOfMemoryText& failure) {
  const auto place = place_of_failure(trace_of(run, *state_of(run, rank)), rank, failure);
  return fmt::format("rank {} had run out of memory at {}{}, {} bytes wanted, and went on",
                     rank.value, run_time(run, failure.time),
                     !place             ? ""
                     : place->is_before ? " after " + place_text(place->place)
                                        : " at " + place_text(place->place),
                     failure.bytes);
}

// What the rank left out was called from no line that is known: where it ran out is what is.
void add_place(const Run& run, Rank rank, const OutOfMemoryText& failure, Finding& finding) {
  const auto place = place_of_failure(trace_of(run, *state_of(run, rank)), rank, failure);
  if (place && finding.where.empty()) {
    finding.where.push_back(place->place);
  }
}

bool is_about_calls(const Finding& finding) {
  return finding.severity == Severity::kError &&
         (finding.code.starts_with("collective.") || finding.code.starts_with("p2p."));
}

void add_to(const Run& run, Finding& finding) {
  // Had others run out of it, too, they may all have given up that step together.
  const bool alone = std::none_of(finding.victims.begin(), finding.victims.end(), [&](Rank rank) {
    return last_exception_of(run, rank) != nullptr;
  });
  if (!alone) {
    return;
  }
  std::vector<std::string> lines;
  for (const Rank rank : finding.culprits) {
    const OutOfMemoryText* const failure = last_exception_of(run, rank);
    const bool went_on =
        failure != nullptr && fatal_failure(trace_of(run, *state_of(run, rank))) == nullptr;
    if (went_on && lines.size() < kEvidenceLines) {
      lines.push_back(shortage_text(run, rank, *failure));
      add_place(run, rank, *failure, finding);
    }
  }
  if (lines.empty()) {
    return;
  }
  lines.emplace_back("no rank that waits had: what such a step leaves out, the others call");
  finding.evidence.insert(finding.evidence.begin(), lines.begin(), lines.end());
  finding.advice =
      "reduce memory use on that rank; to survive running out, have all ranks abandon the step "
      "together; if that is not it, " +
      finding.advice;
}

}  // namespace

void add_caught_shortages(const Run& run, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (is_about_calls(finding)) {
      add_to(run, finding);
    }
  }
}

}  // namespace traintrace
