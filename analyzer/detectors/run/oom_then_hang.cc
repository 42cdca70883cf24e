// A rank ran out of memory and did not come to where the others wait for it.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/memory/allocator/shortage.h"
#include "analyzer/memory/holders/who_held.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/waiting/hang_cause.h"

namespace traintrace {
namespace {

std::string failure_text(const Run& run, Rank rank) {
  const ProcessTrace& trace = trace_of(run, *state_of(run, rank));
  const CallRecord& failed = *out_of_memory(run, rank);
  const auto bytes = value_of(trace, failed, "bytes");
  const auto place = user_place(trace, rank, failed.stack);
  return fmt::format("rank {} ran out of memory at {}: {}{} failed{}", rank.value,
                     run_time(run, failed.enter), call_name(trace, failed.call),
                     bytes ? fmt::format(" of {} bytes", *bytes) : "",
                     place ? " at " + place_text(*place) : "");
}

std::string what_then(const Run& run, Rank rank) {
  const RankState& state = *state_of(run, rank);
  return state.ending == Ending::kExited ? fmt::format("rank {} then exited with status {}",
                                                       rank.value, trace_of(run, state).exit_status)
         : state.ending == Ending::kGone
             ? fmt::format("rank {} is gone, without an exit record", rank.value)
             : "";
}

void put_places(const Run& run, const Hang& hang, Finding& finding) {
  std::vector<CodePlace> places;
  for (const Rank rank : hang.roots) {
    const ProcessTrace& trace = trace_of(run, *state_of(run, rank));
    if (const auto place = user_place(trace, rank, out_of_memory(run, rank)->stack)) {
      places.push_back(*place);
    }
  }
  std::erase_if(finding.where,
                [&](const CodePlace& place) { return contains(hang.roots, place.rank); });
  finding.where.insert(finding.where.begin(), places.begin(), places.end());
}

// By PyTorch's own report of it where there is one: it comes last, and knows its totals.
const OutOfMemoryText* report_of(const Run& run, const RankState& state) {
  const OutOfMemoryText* found = nullptr;
  for (const OutOfMemoryText& failure : trace_of(run, state).out_of_memory) {
    const bool here = state.device < 0 || failure.device == state.device;
    found = here && !failure.held.empty() ? &failure : found;
  }
  return found;
}

// "; to survive running out, .." follows.
std::string what_to_do(const Run& run, const Hang& hang, const OutOfMemoryText* report,
                       const WhoHeld& held, uint64_t wanted) {
  const Rank first = hang.roots.front();
  const std::optional<uint64_t> total =
      report == nullptr ? std::nullopt
                        : shortage_of(trace_of(run, *state_of(run, first)), *report).total;
  if (total && wanted > *total) {
    return fmt::format(
        "look at how the size of that request is computed: {} bytes are more than the whole GPU "
        "has ({} bytes)",
        wanted, *total);
  }
  uint64_t all = 0;
  for (const HeldBlockText& block :
       report == nullptr ? std::vector<HeldBlockText>() : report->held) {
    all = sum_of(all, block.bytes);
  }
  if (!total && all != 0 && all < wanted) {
    return fmt::format(
        "look at how the size of that request is computed: {} bytes, where all that rank {} held "
        "there were {} bytes",
        wanted, first.value, all);
  }
  // What is far less than was asked for is not what is in the way.
  const bool is_in_the_way = !held.most.empty() && held.most_bytes >= wanted;
  return fmt::format("reduce memory use on {}{}", ranks_text(hang.roots),
                     is_in_the_way ? fmt::format(" ({} holds most)", held.most) : "");
}

Finding out_of_memory_hang_finding(const Run& run, const Hang& hang) {
  Finding finding = hang_finding(run, hang, "run.oom-then-hang");
  const Rank first = hang.roots.front();
  const ProcessTrace& trace = trace_of(run, *state_of(run, first));
  finding.title =
      fmt::format("{}; {} for {} in {}{}", failure_text(run, first), waiting_text(run, hang),
                  hang.roots.size() == 1 ? "it" : "them",
                  operation_text(run, run.waits.waits[hang.wait]), further_text(run, hang));
  finding.certainty = doubts_about(run, hang).any() ? Certainty::kLikely : Certainty::kProof;
  finding.culprits = hang.roots;
  put_places(run, hang, finding);
  const auto wanted = value_of(trace, *out_of_memory(run, first), "bytes");
  if (wanted) {
    finding.values.emplace_back("requested_bytes", static_cast<int64_t>(*wanted));
  }
  const RankState& state = *state_of(run, first);
  const OutOfMemoryText* const report = report_of(run, state);
  const WhoHeld held = report == nullptr ? WhoHeld() : who_held(run, state, *report);
  finding.evidence.insert(finding.evidence.end(), held.lines.begin(), held.lines.end());
  for (size_t i = 0; i < std::min<size_t>(hang.roots.size(), 8); ++i) {
    finding.evidence.push_back(
        i == 0 ? fmt::format("after the failure rank {} has launched no work, and no "
                             "allocation of that size has succeeded",
                             first.value)
               : failure_text(run, hang.roots[i]));
    if (const std::string then = what_then(run, hang.roots[i]); !then.empty()) {
      finding.evidence.push_back(then);
    }
  }
  finding.advice = what_to_do(run, hang, report, held, wanted.value_or(0)) +
                   "; to survive running out, catch it and have all ranks skip the step together";
  return finding;
}

}  // namespace

std::vector<Finding> find_out_of_memory(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (cause_of(run, hang) == Cause::kOutOfMemory) {
      findings.push_back(out_of_memory_hang_finding(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
