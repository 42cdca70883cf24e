// What differs from what was asked for is said on stderr at the moment it matters: one line, by the
// first rank of a job alone, since 512 ranks have the same environment.  All of them have it as a
// fact in their traces.
#pragma once

#include "format/trace_format.h"
#include "interpose/life/settings.h"
#include "interpose/record/memory_region.h"

namespace traintrace {

// Values that were not understood, names TRAINTRACE_* that are no setting, and patterns for calls
// that match none.
void tell_about_settings(const Settings& settings) noexcept;
// That fewer records are kept than TRAINTRACE_RING_MB asked for.
void tell_smaller_ring(const Settings& settings, const MemoryRegion& region) noexcept;
// "TRAINTRACE_GPU_TIMELINE=cupti: no GPU timeline: WHY".  Once per setting.
void tell_refused(format::Setting setting, const char* what, const char* why) noexcept;
// That TRAINTRACE_COLLECT cannot be done, once the keeper knows.
void tell_not_collected(const format::FileHeader& memory) noexcept;
// That other processes may use this GPU at the same time (MPS).  Once.
void tell_shared_gpu(int ordinal) noexcept;
// That the CUDA runtime is a part of the program, so that none of its own calls is seen.  Once.
void tell_static_runtime() noexcept;
// Whether the root directory is another than at the start.
bool root_was_changed() noexcept;
// That the folder lies below the root directory that the process has now.  Once.
void tell_changed_root(const format::FileHeader& memory) noexcept;
// Where the trace is, if not in the folder that was asked for.  Once.
void tell_other_place(const format::FileHeader& memory) noexcept;

}  // namespace traintrace
