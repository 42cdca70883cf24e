// Events, where the tables do not say enough.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// Reads what matters of the events of a few processes: of those that others wait for, or of some
// that wait where nobody is missing.
void read_details(Run& run);

}  // namespace traintrace
