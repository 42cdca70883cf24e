// What a model has of each parameter: gradients, an optimizer's state.
#pragma once

#include "analyzer/memory/blocks.h"
#include "analyzer/memory/growth/call_paths.h"

namespace traintrace {

// Where layers are unfrozen one after the other, an optimizer's state grows with each, up to the
// last, and so do gradients.  Parameters that a job makes anew and never drops have a line of the
// job that leaks, too.
bool is_of_model(const ProcessTrace& trace, CallPaths& paths, const BlockGroup& group, TimeNs time);

}  // namespace traintrace
