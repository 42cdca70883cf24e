#include "cuda/tracing.h"

#include "common/entry.h"

namespace simgpu {

std::atomic<const simgpuTracer*> g_tracer{nullptr};

namespace {

std::atomic<uint32_t> g_correlations{0};
thread_local uint32_t t_correlation = 0;

void called(const char* function) {
  if (const simgpuTracer* const tracer = g_tracer.load(std::memory_order_acquire)) {
    t_correlation = g_correlations.fetch_add(1, std::memory_order_relaxed) + 1;
    tracer->called(function, t_correlation);
  }
}

}  // namespace

uint32_t current_correlation() {
  return t_correlation;
}

void trace_work_slow(const simgpuTracer& tracer, const Work& work, const Run& run) {
  simgpuActivity activity = {};
  work.describe(activity);
  if (activity.kind == SIMGPU_NO_ACTIVITY) {
    return;
  }
  activity.start_ns = run.start_ns;
  activity.end_ns = run.end_ns;
  activity.correlation = run.origin.correlation;
  activity.device = run.origin.device;
  activity.context = run.origin.context;
  activity.stream = run.origin.stream;
  tracer.worked(&activity);
}

TracedWait::TracedWait(simgpuActivityKind kind, const Context* context, uint32_t stream) {
  if (g_tracer.load(std::memory_order_acquire) == nullptr) {
    return;
  }
  activity_.kind = kind;
  activity_.start_ns = now_ns();
  activity_.correlation = t_correlation;
  activity_.device = static_cast<uint32_t>(context->device);
  activity_.context = static_cast<uint32_t>(context->id);
  activity_.stream = stream;
}

TracedWait::~TracedWait() {
  const simgpuTracer* const tracer = g_tracer.load(std::memory_order_acquire);
  if (tracer != nullptr && activity_.kind != SIMGPU_NO_ACTIVITY) {
    activity_.end_ns = now_ns();
    tracer->worked(&activity_);
  }
}

}  // namespace simgpu

extern "C" void simgpuTrace(const simgpuTracer* tracer) {
  simgpu::g_tracer.store(tracer, std::memory_order_release);
  simgpu::observe_calls(simgpu::called);
}
