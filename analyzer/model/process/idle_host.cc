#include "analyzer/model/process/idle_host.h"

#include <algorithm>

namespace traintrace {

bool has_nothing_in_flight(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  if (state == nullptr) {
    return false;
  }
  const auto& facts = trace_of(run, *state).facts;
  const auto in_flight = facts.find("operations-in-flight");
  return in_flight != facts.end() && in_flight->second == "0";
}

bool is_flight_dump(const ProcessTrace& trace) {
  const auto source = trace.facts.find("source");
  return source != trace.facts.end() && source->second == "flight-recorder";
}

bool is_idle(const Run& run, const Hang& hang) {
  return hang.fate == Fate::kAlive && hang.divergences.empty() &&
         run.waits.waits[hang.wait].kind == WaitKind::kCollective &&
         std::all_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return has_nothing_in_flight(run, rank); });
}

}  // namespace traintrace
