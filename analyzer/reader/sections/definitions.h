// What was recorded once and is referred to by id: modules, stacks, kernels, facts.
#pragma once

#include "analyzer/reader/sections/tables.h"

namespace traintrace {

void read_definitions(ReadContext& context);

}  // namespace traintrace
