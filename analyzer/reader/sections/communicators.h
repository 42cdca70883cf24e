// Communicators, their last operations, and their peers.
#pragma once

#include "analyzer/reader/sections/tables.h"

namespace traintrace {

// After the streams, which operations refer to.
void read_communicators(ReadContext& context);

}  // namespace traintrace
