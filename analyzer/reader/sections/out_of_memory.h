// When memory ran out, and what was live then.
#pragma once

#include "analyzer/reader/sections/tables.h"

namespace traintrace {

void read_out_of_memory(ReadContext& context);

}  // namespace traintrace
