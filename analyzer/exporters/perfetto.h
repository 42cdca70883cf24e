// Runs for Perfetto's viewer (ui.perfetto.dev).
#pragma once

#include <span>
#include <string>

#include "analyzer/exporters/perfetto_writer.h"

namespace traintrace {

// Each process with counters of its memory.
std::string perfetto_trace(std::span<const ProcessTrace> processes);

// On each device what is in use, by whose it is, and what PyTorch's allocator holds; and when
// memory ran out.  `process`: its track.
void add_memory(const ProcessTrace& trace, uint64_t process, PerfettoWriter& out);

}  // namespace traintrace
