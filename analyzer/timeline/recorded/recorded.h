// The timeline of a process that libtraintrace recorded with TRAINTRACE_GPU_TIMELINE=cupti.
#pragma once

#include <optional>
#include <string>

#include "analyzer/model/ids.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

class Symbolizer;

// Whether CUPTI recorded for it, whatever came of it.
bool has_gpu_timeline(const ProcessTrace& trace);

// Why nothing may be concluded from what CUPTI recorded: records were lost, or there are none.
// Empty: nothing is known against it.
std::string gpu_timeline_refused(const ProcessTrace& trace);

// `trace` with its events.  Where the ring was overwritten, it begins with what is still there of
// all threads.
// `by_host`: by the calls alone, for a trace without a GPU timeline.
Timeline recorded_timeline(const ProcessTrace& trace, Rank rank, int world_size,
                           Symbolizer& symbolizer, bool by_host = false);

}  // namespace traintrace
