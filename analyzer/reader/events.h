// The ring of events.
#pragma once

#include "analyzer/reader/tables.h"

namespace traintrace {

// Fills events, values and records, and counts what the ring has lost.  After the tables.
// Without `keep` it only counts records.
void read_events(ReadContext& context, bool keep);

}  // namespace traintrace
