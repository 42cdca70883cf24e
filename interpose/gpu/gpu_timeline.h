// TRAINTRACE_GPU_TIMELINE=cupti: what the GPU does and when, from CUPTI's activity records.
//
// CUPTI has one subscriber per process.  We take its place only if it is free, and give it back to
// a profiler that comes later (gpu_profilers.cc).  All that is asked of CUPTI is asked by threads
// of the job that are in a call to CUDA anyway, never by ours, which could be anywhere when the
// process ends; nothing is flushed by force, and nothing is finalised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/life/settings.h"
#include "interpose/record/thread.h"

namespace traintrace {

inline constexpr uint32_t kTimelineOff = 0;
inline constexpr uint32_t kTimelineWanted = 1;
inline constexpr uint32_t kTimelineOn = 2;
inline constexpr uint32_t kTimelineEnded = 3;
inline constexpr uint32_t kTimelineStarts = 4;
extern uint32_t g_gpu_timeline;  // one of these

// When recording starts.
void gpu_timeline_start(const Settings& settings) noexcept;
// A thread of the job, inside the tracer, is about to call CUDA or NCCL.
void gpu_timeline_begin_slow(ThreadState& thread) noexcept;
inline void gpu_timeline_begin(ThreadState& thread) noexcept {
  if (__atomic_load_n(&g_gpu_timeline, __ATOMIC_ACQUIRE) == kTimelineWanted) [[unlikely]] {
    gpu_timeline_begin_slow(thread);
  }
}

inline bool gpu_timeline_is_on() noexcept {
  return __atomic_load_n(&g_gpu_timeline, __ATOMIC_ACQUIRE) == kTimelineOn;
}

// At the end of a call that waited for the GPU: asks for what is complete, now and then.
void gpu_timeline_flush(ThreadState& thread) noexcept;
inline void gpu_timeline_synchronised(ThreadState& thread) noexcept {
  if (gpu_timeline_is_on()) [[unlikely]] {
    gpu_timeline_flush(thread);
  }
}

// Another profiler comes: it gets the subscription.
void gpu_timeline_give_way() noexcept;

// Whether it is a buffer of ours, whoever is told that it is complete; then its records are taken.
bool gpu_buffer_completed(void* context, uint32_t stream, uint8_t* buffer,
                          size_t valid_bytes) noexcept;
bool gpu_timeline_has_buffers() noexcept;

}  // namespace traintrace
