// The verdict about processes of this machine that `attach` was given.
#pragma once

#include <vector>

#include "analyzer/reader/read_trace.h"
#include "analyzer/reporters/verdict/judged_runs.h"

namespace traintrace {

// By us, and not only looked at.
bool is_recorded(const ProcessTrace& trace);
bool is_recorded(const std::vector<ProcessTrace>& processes);

// Of the runs in `traces` that with the processes `pids` leads; the others are named.
Result<JudgedRun> judge_job(const TraceSet& traces, const std::vector<pid_t>& pids,
                            TimeNs hang_after, const Explain& explain);

}  // namespace traintrace
