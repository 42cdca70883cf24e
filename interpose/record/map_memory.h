// Address space of the tracer's in the job's process: much of it is never used.
#pragma once

#include <cstddef>

namespace traintrace {

// Zeroed memory that takes none until it is written to, also in a job that has asked for all its
// future memory to be locked (mlockall(MCL_FUTURE)), which would give it a gigabyte of ours at
// once.  Null: there is none.
void* map_sparse(size_t bytes) noexcept;
// The same of a file, shared with whoever has it.
void* map_sparse_file(int file, size_t bytes) noexcept;

}  // namespace traintrace
