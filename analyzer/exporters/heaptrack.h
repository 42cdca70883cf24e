// Memory as heaptrack's own data files have it, for heaptrack_print and heaptrack_gui.
#pragma once

#include <string>

#include "analyzer/symbols/symbolizer.h"

namespace traintrace {

// Version 3 of the format.  What was live before the records began is allocated at time 0.
std::string heaptrack_file(const ProcessTrace& trace, Symbolizer& symbolizer);

}  // namespace traintrace
