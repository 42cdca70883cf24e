// Where threads that give the GPU its work are while they make no call: in the data loader, or
// elsewhere in Python.
//
// The tracer's own thread looks, now and then and only while such a thread is quiet.  With a
// timeline of the GPU a launch costs some ns more; without one a call whose Python stack is
// recorded.
#pragma once

#include "interpose/record/thread.h"

namespace traintrace {

inline constexpr uint64_t kSampleEveryNs = 2'000'000;
// Without a timeline of the GPU.
inline constexpr uint64_t kLookEveryNs = 5'000'000;

// When recording starts.
void host_samples_start() noexcept;

// The calling thread gives the GPU work, or made another call from Python.
void host_samples_watch(ThreadState& thread) noexcept;

// By the tracer's own thread, while it is wanted.  Returns when to look again.
bool host_samples_wanted() noexcept;
uint64_t host_samples_take(ThreadState& own) noexcept;

}  // namespace traintrace
