// All runs that were given are judged, and the report leads with one of them: what is wrong with
// any of them is not hidden by another that came later.
#pragma once

#include <functional>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/build_run.h"

namespace traintrace {

struct JudgedRun {
  Run run;  // `others` say what is to be said of the others
  std::vector<Finding> findings;
};
using JudgeRun = std::function<std::vector<Finding>(Run& run)>;

// Leads with one that has errors, before one that still runs, before one in which somebody waits,
// before the latest; with `options.run` that one, and no other is judged.  What a launcher has
// started again since leads never: its job goes on.  An error: there is no such run.
Result<JudgedRun> judge_runs(std::vector<RunInput> inputs, const std::vector<ReadError>& unreadable,
                             const RunOptions& options, const JudgeRun& judge);

}  // namespace traintrace
