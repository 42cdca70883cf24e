// The judge: what a run recorded becomes findings in six stages, with plain data between them.
// There is no other way to put them together: every command and every test calls judge().
#pragma once

#include <functional>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/judge/load.h"
#include "analyzer/reader/result.h"

namespace traintrace {

struct JudgedRun {
  Run run;  // `others` say what is to be said of the others
  std::vector<Finding> findings;
};

// The last stage.  It may read more of the run's traces, and add what other tools say.
using Explain = std::function<std::vector<Finding>(Run& run)>;

// `input`: all processes of one run, of any source, in any order.  `unreadable`: inputs beside
// them that could not be read.
JudgedRun judge(RunInput input, const std::vector<ReadError>& unreadable, const RunOptions& options,
                const Explain& explain);

// The run of `traces` that the options ask for.  An error: there is no such run (the message names
// those that there are), or no trace at all.
Result<JudgedRun> judge(std::vector<ProcessTrace> traces, const std::vector<ReadError>& unreadable,
                        const RunOptions& options);

}  // namespace traintrace
