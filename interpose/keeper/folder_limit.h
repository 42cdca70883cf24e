// Keeps the traces of a folder below a limit: the oldest runs go, those that ended well first.  By
// the keeper, only in folders that nobody named, or where the limit was asked for.
#pragma once

#include "format/trace_format.h"

namespace traintrace {

// Removes whole runs, none of which a process still writes to, nor one of `trace`'s own run; what
// was removed is counted in `trace`.
void keep_below_limit(int folder, format::FileHeader& trace) noexcept;

}  // namespace traintrace
