#include "analyzer/model/divergence/abandoned_step.h"

#include <algorithm>

#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

// PyTorch raised that it was out of memory before then, and the process went on.
bool ran_out_before(const ProcessTrace& trace, TimeNs time) {
  return std::any_of(
      trace.out_of_memory.begin(), trace.out_of_memory.end(), [&](const OutOfMemoryText& failure) {
        const CallSchema* const schema = schema_of(trace, failure.call);
        return schema != nullptr && schema->kind.starts_with("tensor-") && failure.time < time;
      });
}

}  // namespace

void take_for_abandoned_step(const Run& run, Divergence& found) {
  if (found.kind != DivergenceKind::kSwapped || found.length != 1 || found.deviants.size() != 1 ||
      found.tie || found.grouped) {
    return;
  }
  const TimeNs time = found.own.item.operation.enter;
  const auto ran_out = [&](Rank rank) {
    const RankState* const state = state_of(run, rank);
    return state != nullptr && ran_out_before(trace_of(run, *state), time);
  };
  if (ran_out(found.deviants.front()) &&
      std::none_of(found.others.begin(), found.others.end(), ran_out)) {
    found.kind = DivergenceKind::kSkipped;
    found.sequence_last = found.sequence;
    found.own_second = {};
    found.matches = 1;
  }
}

}  // namespace traintrace
