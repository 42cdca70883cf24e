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

// Has the pages of these bytes at once, those at their ends as a whole; where the kernel is too old
// for that (5.14), errno is EINVAL.
bool populate(void* memory, size_t bytes) noexcept;

// So many bytes could not be mapped, as all new memory is locked (mlockall(MCL_FUTURE)) and the
// process may not lock as much (RLIMIT_MEMLOCK).
bool may_lock_too_little(size_t bytes) noexcept;

}  // namespace traintrace
