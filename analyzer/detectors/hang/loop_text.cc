#include "analyzer/detectors/hang/loop_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/hang/divergence_text.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/sequences.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool has_lines(const Run& run, const SideCall& call) {
  return user_place(run.processes[call.process], call.rank, call.item.operation.stack).has_value();
}

// How often the rank made such a call before, from the same line, as far as is kept.
size_t times_before(const Run& run, const SideCall& call) {
  const ProcessTrace& trace = run.processes[call.process];
  const OperationText& own = call.item.operation;
  const uint64_t site = site_of(trace, own.stack);
  size_t times = 0;
  for (const CommunicatorText& communicator : trace.communicators) {
    times += static_cast<size_t>(std::count_if(
        communicator.recent.begin(), communicator.recent.end(), [&](const OperationText& earlier) {
          return earlier.enter < own.enter && earlier.call == own.call && earlier.as == own.as &&
                 site_of(trace, earlier.stack) == site;
        }));
  }
  return times;
}

std::string call_of(const SideCall& call) {
  return name_of_call(call.item.function, call.item.operation);
}

}  // namespace

std::string loop_text(const Run& run, const Divergence& divergence) {
  const bool is_change = divergence.kind == DivergenceKind::kFunction ||
                         divergence.kind == DivergenceKind::kType ||
                         divergence.kind == DivergenceKind::kCount;
  if (!is_change || divergence.tie || !has_lines(run, divergence.own) ||
      !has_lines(run, divergence.expected)) {
    return "";
  }
  const size_t own = times_before(run, divergence.own);
  const size_t expected = times_before(run, divergence.expected);
  const std::string who = ranks_text(divergence.deviants);
  const std::string others = ranks_text(callers_of(run, divergence));
  if (own == 0 && expected >= kHabitTimes) {
    return fmt::format(
        "the records of {} have no earlier {} from that line, {} went on as in earlier steps: it "
        "left the loop before the others (a batch short), or took a branch that they did not",
        who, call_of(divergence.own), others);
  }
  return expected == 0 && own >= kHabitTimes
             ? fmt::format(
                   "the records of {} have no earlier {} from that line, {} went on as in "
                   "earlier steps: it left that call out, or had a batch more",
                   others, call_of(divergence.expected), who)
             : "";
}

}  // namespace traintrace
