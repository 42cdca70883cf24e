// What libtraintrace recorded of GPUs, as timelines.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

struct GpuTimelines {
  std::vector<Timeline> timelines;  // by rank
  std::vector<Finding> refused;     // why that of a rank is not among them
};

// Of all ranks that have one.  Reads their events again where the run has only the tables.
GpuTimelines gpu_timelines_of(const Run& run);

// Of the first rank that was asked for a GPU timeline and has none: why; empty: there is none.
std::string asked_in_vain(const Run& run);

// Why there is none of any rank.
std::string why_no_gpu_timeline(const Run& run, const GpuTimelines& timelines);

// Adds what is found in them to `findings`, unless these say that the run went wrong: what a hang
// loses is no matter of latency.  They stay as Run::profile.
void add_latency(Run& run, std::vector<Finding>& findings);

// "the GPU timelines of ranks 0,1 end early: up to 5 of 60 steps at the end are left out"; empty:
// none is.
std::string steps_left_out_text(std::span<const Timeline> timelines);

// Adds what CUPTI had not handed over when the processes of `run.profile` ended; of those that run
// it may yet do so.
void say_lost_tails(const Run& run, std::vector<Finding>& findings);

}  // namespace traintrace
