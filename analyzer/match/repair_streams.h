// Whether a verdict explains the hang, where streams are known: the rank that is blamed gets the
// calls that it should have made, and what can complete is found again (judge/completion.h).
#pragma once

#include <optional>
#include <vector>

#include "analyzer/match/departures.h"
#include "analyzer/match/repair.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Of one run, as much of its operations as is kept now: what waits then is compared with what waits
// in the same run after a repair.
class StreamRepairs {
 public:
  explicit StreamRepairs(Run& run) : run_(run) {}

  // The trace of the rank is exchanged for the time of the call.
  Freed freed_by(const std::vector<Program>& programs, const Departure& departure);

 private:
  const Ranks& waiting_unrepaired();

  Run& run_;
  std::optional<Ranks> waiting_;  // without a repair
};

}  // namespace traintrace
