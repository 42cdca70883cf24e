// Tells in TRAINTRACE_DIR where a trace is that could not be put there.
#pragma once

#include "format/trace_format.h"

namespace traintrace {

// May block, where `dir` lies on a server that is gone.
void write_pointer_file(const char* dir, const format::FileHeader& trace,
                        const char* target) noexcept;

}  // namespace traintrace
