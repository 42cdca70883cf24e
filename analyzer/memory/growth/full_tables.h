// Where more was live than the tables of what is live have room for.
#pragma once

#include <optional>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// Since when one of them was full, and much came later; nullopt: what they have is as good as all.
std::optional<TimeNs> tables_full_since(const ProcessTrace& trace);

}  // namespace traintrace
