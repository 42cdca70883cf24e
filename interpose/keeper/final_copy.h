// The file that is left of a trace when its process has ended: without the holes of the memory, so
// that it may be copied by anything; and of a process that ended well only the newest records.
#pragma once

#include <cstdint>

#include "format/trace_format.h"

namespace traintrace {

// How large it becomes at most.
uint64_t final_copy_bytes(const format::FileHeader& memory) noexcept;

// `state`: kPartial while the process may go on.  False: a write failed.  `memory` is mapped as a
// whole, `descriptor` is its own or -1 (touched.h); what is left out is counted in the file.
bool write_final_copy(format::FileHeader& memory, int descriptor, format::CopyState state,
                      int file) noexcept;
// What the header of such a file says of the end of the process, once that is known.
bool complete_final_copy(const format::FileHeader& memory, int file) noexcept;

}  // namespace traintrace
