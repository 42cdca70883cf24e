// Memory that threads without a line of the job allocated, as those of autograd.
#pragma once

#include <vector>

#include "analyzer/memory/growth/growth.h"

namespace traintrace {

// Sets Growth::after of it: where the job stood when most of its blocks were allocated.  What has
// no such place is left out.
void place_nameless(const ProcessTrace& trace, CallPaths& paths,
                    std::vector<GrowingGroup>& growing);

}  // namespace traintrace
