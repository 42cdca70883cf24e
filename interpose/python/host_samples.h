// Where threads that give the GPU its work are while they make no call, for the GPU's timeline: in
// the data loader, or elsewhere in Python.
//
// The tracer's own thread looks, now and then and only while such a thread is quiet; a launch costs
// some ns more, and other calls nothing.
#pragma once

#include "interpose/record/thread.h"

namespace traintrace {

inline constexpr uint64_t kSampleEveryNs = 2'000'000;

// When recording starts.
void host_samples_start() noexcept;

// The calling thread gives the GPU work.
void host_samples_launching(ThreadState& thread) noexcept;

// By the tracer's own thread, every kSampleEveryNs while it is wanted.
bool host_samples_wanted() noexcept;
void host_samples_take(ThreadState& own) noexcept;

}  // namespace traintrace
