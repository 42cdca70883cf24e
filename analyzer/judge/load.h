// Load: the records of one run, decoded, and what could not be read beside them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/run.h"
#include "analyzer/model/runs/split_runs.h"
#include "analyzer/reader/result.h"
#include "analyzer/thresholds.h"

namespace traintrace {

struct RunOptions {
  std::string run;  // its id; empty: the latest
  TimeNs hang_after = kHangAfter;
  ReadEvents read_events = {};  // null: only those that are in the traces
};

Run load(RunInput input, const std::vector<ReadError>& unreadable, const RunOptions& options);

// Load and assemble, for commands that judge nothing.  An error: no trace at all.
Result<Run> assembled_run(std::vector<ProcessTrace> traces);

// Which of them is called so; the latest where `id` is empty.  An error: there is none such (the
// message names those that there are).
Result<size_t> chosen_run(std::span<const RunInput> inputs, const std::string& id);

}  // namespace traintrace
