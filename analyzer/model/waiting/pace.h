// How long the job takes for what it does again and again: an operation that takes no longer is no
// stall.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// How long it took at most, from one operation of the communicator to the next or inside one call
// that returned before `until`, when it still moved; without what a late host took, nor the time in
// which the GPU had nothing to do.
TimeNs pace_of(const Run& run, const Communicator& communicator, TimeNs until);

}  // namespace traintrace
