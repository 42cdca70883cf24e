// Snapshots of memory as torch.cuda.memory writes them, for those who have viewers of them.
#pragma once

#include <string>

#include "analyzer/symbols/symbolizer.h"

namespace traintrace {

// A pickle of protocol 4: what the process held last, and how it came to that as far as it was
// recorded.  What CUDA's other users hold is in it as well, as segments with one block each; the
// category of an event says whose it is.
std::string torch_snapshot(const ProcessTrace& trace, Symbolizer& symbolizer);

}  // namespace traintrace
