// The ring of events.
#pragma once

#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/sections/tables.h"

namespace traintrace {

// Fills events, values and records, and counts what the ring has lost.  After the tables.
// Without events it only counts records.
void read_events(ReadContext& context, const ReadOptions& options);

}  // namespace traintrace
