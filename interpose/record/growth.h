// Sections of the trace's memory that begin small and grow.  Memory of a container is the job's, so
// nothing is taken before it is needed; and nothing is touched before the kernel has given it, for
// a hole of a full tmpfs kills with SIGBUS.
#pragma once

#include <cstdint>

#include "format/trace_format.h"
#include "interpose/record/sections.h"

namespace traintrace {

// What grows ahead of its use, by the tracer's own thread.
enum Growing : uint32_t { kGrowRing = 1, kGrowAllocations = 2, kGrowTensorBlocks = 4 };

extern uint32_t g_growth_asked;     // bits of Growing that the own thread has not answered yet
extern uint32_t g_own_thread_wake;  // futex that the own thread sleeps on
void wake_own_thread() noexcept;

// On the hot path: at most one system call (a futex) for each step of growth.
inline void ask_for_growth(Growing what) noexcept {
  if ((__atomic_load_n(&g_growth_asked, __ATOMIC_RELAXED) & what) == 0 &&
      (__atomic_fetch_or(&g_growth_asked, what, __ATOMIC_RELAXED) & what) == 0) {
    wake_own_thread();
  }
}

// By the tracer's own thread.  A step that fails is tried again a second later, not before: asking
// must stay cheap where there is no more memory.
void grow_as_asked() noexcept;
void forget_refused_growth() noexcept;
bool growth_is_pending() noexcept;
bool growth_is_refused(Growing what) noexcept;
// By a thread of the job that found no room, after ask_for_growth: it was faster than the own
// thread, which may not have run yet on a machine with more threads than processors.  It grows
// itself, or waits up to kGrowthPatienceNs for who does.  False: there is no more memory.
bool help_to_grow(Growing what) noexcept;

// Makes the first `bytes` of the section ready, and somewhat more.  Off the hot path, from any
// thread; it may take some hundred microseconds, and waits for another thread that grows as long as
// `patience_ns`.  False: there is no memory for it, or the section is not that large.
inline constexpr uint64_t kGrowthPatienceNs = 200'000'000;
bool grow_to(format::SectionKind kind, uint64_t bytes,
             uint64_t patience_ns = kGrowthPatienceNs) noexcept;

inline uint64_t ready_bytes(const format::FileHeader* file, format::SectionKind kind) noexcept {
  return __atomic_load_n(&file->ready_bytes[index_of(file, kind)], __ATOMIC_ACQUIRE);
}

// `descriptor` is that of the memory; it is ours to close once another way to it is known, which is
// the memory's path or the keeper's descriptor.
void growth_start(format::FileHeader* file, int descriptor) noexcept;
void growth_keeps_no_descriptor() noexcept;
// In a forked child.
void growth_drop() noexcept;

}  // namespace traintrace
