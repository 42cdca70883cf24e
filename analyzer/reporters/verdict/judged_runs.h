// All runs that were given are judged, and the report leads with one of them: what is wrong with
// any of them is not hidden by another that came later.
#pragma once

#include <vector>

#include "analyzer/judge/judge.h"

namespace traintrace {

// Leads with one that has errors, before one that still runs, before one in which somebody waits,
// before the latest; with `options.run` that one, and no other is judged.  What a launcher has
// started again since leads never: its job goes on.  An error: there is no such run.
Result<JudgedRun> judge_runs(std::vector<RunInput> inputs, const std::vector<ReadError>& unreadable,
                             const RunOptions& options, const Explain& explain);

}  // namespace traintrace
