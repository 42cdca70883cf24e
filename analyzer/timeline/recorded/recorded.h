// The timeline of a process that libtraintrace recorded with TRAINTRACE_GPU_TIMELINE=cupti.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "analyzer/model/ids.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

class Symbolizer;
struct Run;

// Whether CUPTI recorded for it, whatever came of it.
bool has_gpu_timeline(const ProcessTrace& trace);

// Why nothing may be concluded from what CUPTI recorded: records were lost, or there are none.
// Empty: nothing is known against it.
std::string gpu_timeline_refused(const ProcessTrace& trace);

// What a rank alone does not know of its job.
struct JobSizes {
  int world = 0;                          // 0: not known
  std::map<uint64_t, int> communicators;  // by id; those known
};
JobSizes job_sizes(const Run& run);

// `trace` with its events.  Where the ring was overwritten, it begins with what is still there of
// all threads.
// `by_host`: by the calls alone, for a trace without a GPU timeline.
Timeline recorded_timeline(const ProcessTrace& trace, Rank rank, const JobSizes& sizes,
                           Symbolizer& symbolizer, bool by_host = false);

}  // namespace traintrace
