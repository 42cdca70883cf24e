// Traces to runs: who belongs together, who is which rank, what they share.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/narrow_divergences.h"
#include "analyzer/model/run.h"
#include "analyzer/reader/result.h"

namespace traintrace {

inline constexpr TimeNs kHangAfter = 5'000'000'000;

struct RunOptions {
  std::string run;  // its id; empty: the latest
  TimeNs hang_after = kHangAfter;
  ReadEvents read_events = {};  // null: only those that are in the traces
};

// Of `traces`, in whatever order.  An error: there is no such run (the message names those that
// there are), or no trace at all.
Result<Run> build_run(std::vector<ProcessTrace> traces, std::vector<ReadError> unreadable,
                      const RunOptions& options);

}  // namespace traintrace
