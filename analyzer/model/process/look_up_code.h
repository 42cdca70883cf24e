// Functions and lines for the native frames that a report may name.
#pragma once

#include <set>

#include "analyzer/model/run.h"
#include "analyzer/symbols/symbolizer.h"

namespace traintrace {

// Fills ProcessTrace::code for call sites of what is kept, of events and of the last stacks of
// threads.
void look_up_code(Run& run, Symbolizer& symbolizer);
// The same for those of one process.
void look_up_code(ProcessTrace& trace, const std::set<uint32_t>& stacks, Symbolizer& symbolizer);

}  // namespace traintrace
