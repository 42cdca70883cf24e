// Steps as the job itself tells them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct ToldStep {
  TimeNs began;
  int64_t number;  // the job's own
};

// Those that the markers of include/traintrace.h tell; else ranges of NVTX that are called like
// steps.  Of the thread that told most, by time.  Empty: none are told.
std::vector<ToldStep> told_steps(const ProcessTrace& trace);

// 1284 of "step 1284", "Iteration #1284" or "ProfilerStep#1284"; none: it is no name of a step.
std::optional<int64_t> step_number_of(std::string_view name);

}  // namespace traintrace
