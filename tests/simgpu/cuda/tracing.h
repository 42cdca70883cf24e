// What simgpu's libcupti is told of calls and work.  It costs a load and a branch while nobody
// traces.
#pragma once
#include "cuda/state.h"

namespace simgpu {

extern std::atomic<const simgpuTracer*> g_tracer;

// Of the call that this thread is in; 0 while nobody traces.
uint32_t current_correlation();

void trace_work_slow(const simgpuTracer& tracer, const Work& work, const Run& run);
inline void trace_work(const Work& work, const Run& run) {
  if (const simgpuTracer* const tracer = g_tracer.load(std::memory_order_acquire)) {
    trace_work_slow(*tracer, work, run);
  }
}

// A call that waits, while this lives.
class TracedWait {
 public:
  TracedWait(simgpuActivityKind kind, const Context* context, uint32_t stream);
  ~TracedWait();
  TracedWait(const TracedWait&) = delete;
  TracedWait& operator=(const TracedWait&) = delete;

 private:
  simgpuActivity activity_ = {};
};

}  // namespace simgpu
