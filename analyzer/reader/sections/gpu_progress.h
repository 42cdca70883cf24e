// What the GPU wrote about operations, at the levels `marks` and `plugin` (docs/format.md).
#pragma once

#include "analyzer/reader/sections/tables.h"

namespace traintrace {

// After all else: the words that the GPU writes are looked up when the operations and the facts,
// one of which says where the words are, are known.
void read_gpu_progress(ReadContext& context);

}  // namespace traintrace
