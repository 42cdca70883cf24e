// The keeper: a small process beside each recorded one, which copies the trace's memory to the
// folder each second and when the process has ended.  What a disk does - it is full, slow, frozen,
// gone - happens to the keeper, never to the job; and the memory outlives a process that is killed.
//
// It is this library itself, started as a program by the loader (entry_keeper.S), so nothing has to
// be found or installed beside it.
#pragma once

#include <cstdint>

#include "format/trace_format.h"

namespace traintrace {

// The descriptor of the memory, in the keeper.
inline constexpr int kKeeperDescriptor = 3;

// What the keeper does, as long as the process of `memory` runs; the process itself does it in a
// thread where no keeper can be started.
void keep_copying(format::FileHeader* memory) noexcept;
// The same in a thread, until `must_end` is not 0 and what was recorded until then is copied.
void keep_copying_in_thread(format::FileHeader* memory, const uint32_t& must_end) noexcept;

// The memory of a trace as a whole; null: that is none.
format::FileHeader* map_trace_memory(int descriptor) noexcept;

}  // namespace traintrace
