// What took the place of memory that another line of the job had.
#pragma once

#include <vector>

#include "analyzer/memory/growth/growth.h"

namespace traintrace {

// Leaves out what grew in place of what others let go over the same steps: an entry of a full
// buffer that another line overwrites, weights that are exchanged for smaller copies.  The job as a
// whole did not grow by it.
void set_replacements_aside(const ProcessTrace& trace, const Steps& steps, CallPaths& paths,
                            std::vector<GrowingGroup>& growing);

}  // namespace traintrace
