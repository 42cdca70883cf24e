#include "interpose/gpu/gpu_timeline.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "interpose/base/files.h"
#include "interpose/calls/open_call.h"
#include "interpose/calls/resolve.h"
#include "interpose/gpu/cupti_api.h"
#include "interpose/gpu/cupti_load.h"
#include "interpose/gpu/gpu_records.h"
#include "interpose/life/arming.h"
#include "interpose/life/facts.h"
#include "interpose/life/gpu_models.h"
#include "interpose/life/told.h"
#include "interpose/life/versions.h"
#include "interpose/python/host_samples.h"
#include "interpose/record/clock.h"
#include "interpose/record/map_memory.h"
#include "interpose/record/stats.h"
#include "interpose/stacks/modules.h"
#include "interpose/tables/tables.h"

namespace traintrace {

constinit uint32_t g_gpu_timeline = kTimelineOff;

namespace {

// Small, so that CUPTI hands them over often by itself.
constexpr size_t kBufferBytes = 256UL << 10;
constexpr uint32_t kBuffers = 64;
constexpr uint64_t kFlushEveryNs = 100'000'000;
constexpr uint64_t kClockEveryNs = 1'000'000'000;

struct Timeline {
  cupti::Functions cupti;
  cupti::Subscriber subscriber;
  uint8_t* buffers;
  uint32_t taken[kBuffers];
  uint64_t last_flush_ns;
  uint64_t last_clock_ns;
};
constinit Timeline g_timeline = {};
// CUPTI belongs to the process that started it: its forked children have only the remains.
constinit pid_t g_started_in = 0;

constexpr uint32_t kKinds[] = {cupti::kConcurrentKernel, cupti::kMemcpy,   cupti::kMemcpyPeer,
                               cupti::kMemset,           cupti::kOverhead, cupti::kSynchronization};

// What puts work on a GPU.
constexpr const char* kLaunches[] = {"cudaLaunch", "cudaMemcpy", "cudaMemset", "cudaGraphLaunch",
                                     "cuLaunch",   "cuMemcpy",   "cuMemset",   "cuGraphLaunch"};
constexpr uint32_t kMostCallbacks = 2048;

bool is_due(uint64_t& last_ns, uint64_t every_ns) {
  const uint64_t now_ns = nanoseconds(CLOCK_MONOTONIC);
  const uint64_t last = load(last_ns);
  return now_ns - last >= every_ns && exchange_if(last_ns, last, now_ns);
}

void requested(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = nullptr;
  *bytes = 0;
  *most_records = 0;  // as many as fit
  for (uint32_t i = 0; i < kBuffers; ++i) {
    if (exchange_if(g_timeline.taken[i], 0U, 1U)) {
      *buffer = g_timeline.buffers + i * kBufferBytes;
      *bytes = kBufferBytes;
      return;
    }
  }
}

void completed(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_bytes) {
  gpu_buffer_completed(context, stream, buffer, valid_bytes);
}

// Null: nothing may be recorded now.
[[gnu::always_inline]] inline ThreadState* begin_record(InsideMark& mark) {
  ThreadState* const thread = armed_generation() != 0 ? thread_to_record(false) : nullptr;
  return thread != nullptr && enter_tracer_if_free(*thread, mark) ? thread : nullptr;
}

// The two clocks side by side; between two readings of ours, as close as can be.
void write_clock(ThreadState& thread) {
  uint64_t there_ns = 0;
  uint64_t before = 0;
  uint64_t after = 0;
  int result = 0;
  {
    const OwnCall own(thread);
    before = clock_ticks();
    result = g_timeline.cupti.cuptiGetTimestamp(&there_ns);
    after = clock_ticks();
  }
  if (result == cupti::kSuccess) {
    const uint64_t fields[] = {there_ns};
    write_moment(thread, format::Moment::gpuClock, before + (after - before) / 2, format::kNoDevice,
                 0, fields, 1);
  }
}

void called(void*, uint32_t, uint32_t, const void* data) {
  const auto& call = *static_cast<const cupti::CallbackData*>(data);
  if (call.site != cupti::kApiEnter || load(g_gpu_timeline) != kTimelineOn) {
    return;
  }
  const int saved_errno = errno;
  InsideMark mark;
  if (ThreadState* const thread = begin_record(mark)) {
    const uint64_t fields[] = {call.correlation};
    write_moment(*thread, format::Moment::gpuLaunch, clock_ticks(), thread->device, 0, fields, 1);
    host_samples_watch(*thread);
    if (is_due(g_timeline.last_clock_ns, kClockEveryNs)) {
      write_clock(*thread);
    }
    leave_tracer(*thread);
  }
  errno = saved_errno;
}

template <class Function>
bool find(void* library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(real_lookup(library, name));
  return function != nullptr;
}

bool find_functions(void* library) {
  cupti::Functions& cupti = g_timeline.cupti;
#define TT_FIND(name) find(library, cupti.name, #name)
  return library != nullptr && TT_FIND(cuptiSubscribe) && TT_FIND(cuptiUnsubscribe) &&
         TT_FIND(cuptiEnableCallback) && TT_FIND(cuptiGetCallbackName) &&
         TT_FIND(cuptiActivityRegisterCallbacks) && TT_FIND(cuptiActivityEnable) &&
         TT_FIND(cuptiActivityDisable) && TT_FIND(cuptiActivityFlushAll) &&
         TT_FIND(cuptiActivityGetNextRecord) && TT_FIND(cuptiActivityGetNumDroppedRecords) &&
         TT_FIND(cuptiGetTimestamp);
#undef TT_FIND
}

void enable_callbacks(uint32_t domain) {
  for (uint32_t id = 1; id < kMostCallbacks; ++id) {
    const char* name = nullptr;
    if (g_timeline.cupti.cuptiGetCallbackName(domain, id, &name) != cupti::kSuccess ||
        name == nullptr) {
      continue;
    }
    for (const char* const launch : kLaunches) {
      if (starts_with(name, launch)) {
        g_timeline.cupti.cuptiEnableCallback(1, g_timeline.subscriber, domain, id);
        break;
      }
    }
  }
}

// Null: it runs.  Else why not.
const char* subscribe() {
  if (!find_functions(load_cupti())) {
    return "no libcupti, or not all of it";
  }
  if (g_timeline.buffers == nullptr) {
    g_timeline.buffers = static_cast<uint8_t*>(map_sparse(kBuffers * kBufferBytes));
    if (g_timeline.buffers == nullptr) {
      return "no memory";
    }
  }
  const int result = g_timeline.cupti.cuptiSubscribe(&g_timeline.subscriber, called, nullptr);
  if (result != cupti::kSuccess) {
    return result == cupti::kMultipleSubscribers ? "another profiler has CUPTI"
                                                 : "CUPTI does not take a subscriber";
  }
  if (g_timeline.cupti.cuptiActivityRegisterCallbacks(requested, completed) != cupti::kSuccess ||
      g_timeline.cupti.cuptiActivityEnable(cupti::kConcurrentKernel) != cupti::kSuccess) {
    g_timeline.cupti.cuptiUnsubscribe(g_timeline.subscriber);
    return "CUPTI refuses to record kernels";
  }
  for (const uint32_t kind : kKinds) {
    g_timeline.cupti.cuptiActivityEnable(kind);  // those it does not have are missed
  }
  enable_callbacks(cupti::kDriverApi);
  enable_callbacks(cupti::kRuntimeApi);
  return nullptr;
}

// CUPTI starts a thread, which must not get the job's signals.
const char* subscribe_with_signals_blocked(ThreadState& thread) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const char* why = nullptr;
  {
    const OwnCall own(thread);
    why = subscribe();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return why;
}

}  // namespace

void gpu_timeline_start(const Settings& settings) noexcept {
  host_samples_start();
  gpu_models_start();
  const bool inherited = g_started_in != 0 && g_started_in != getpid();
  publish(g_gpu_timeline, settings.gpu_timeline && !inherited ? kTimelineWanted : kTimelineOff);
  if (settings.gpu_timeline) {
    publish(g_new_version, true);  // so that the next call looks in
  }
}

void gpu_timeline_begin_slow(ThreadState& thread) noexcept {
  const bool mine =
      loader_can_be_asked() && exchange_if(g_gpu_timeline, kTimelineWanted, kTimelineStarts);
  if (!mine) {
    publish(g_new_version, load(g_gpu_timeline) == kTimelineWanted);
    return;
  }
  const int saved_errno = errno;
  g_started_in = getpid();
  const char* const why = subscribe_with_signals_blocked(thread);
  ShortText fact;
  fact << (why == nullptr ? "cupti" : "none: ") << (why == nullptr ? "" : why);
  write_fact(thread, "gpu-timeline", fact.c_str());
  if (why != nullptr) {
    tell_refused(format::Setting::GpuTimeline, "no GPU timeline is recorded", why);
  } else {
    // The record of this call is yet to come, with an earlier time: none may stand before it.
    publish(g_timeline.last_clock_ns, uint64_t{0});
  }
  publish(g_gpu_timeline, why == nullptr ? kTimelineOn : kTimelineEnded);
  errno = saved_errno;
}

void gpu_timeline_flush(ThreadState& thread) noexcept {
  if (!is_due(g_timeline.last_flush_ns, kFlushEveryNs)) {
    return;
  }
  const int saved_errno = errno;
  write_clock(thread);
  define_gpu_models(thread);
  {
    const OwnCall own(thread);
    g_timeline.cupti.cuptiActivityFlushAll(0);
  }
  errno = saved_errno;
}

void gpu_timeline_give_way() noexcept {
  if (getpid() != g_started_in || !exchange_if(g_gpu_timeline, kTimelineOn, kTimelineEnded)) {
    return;
  }
  for (const uint32_t kind : kKinds) {
    g_timeline.cupti.cuptiActivityDisable(kind);
  }
  // Else CUPTI would go on filling a buffer of ours, with what the other one asks for.
  g_timeline.cupti.cuptiActivityFlushAll(0);
  g_timeline.cupti.cuptiUnsubscribe(g_timeline.subscriber);
  InsideMark mark;
  if (ThreadState* const thread = begin_record(mark)) {
    write_fact(*thread, "gpu-timeline-ended", "another profiler came");
    leave_tracer(*thread);
  }
}

bool gpu_timeline_has_buffers() noexcept {
  return load(g_timeline.buffers) != nullptr;
}

bool gpu_buffer_completed(void* context, uint32_t stream, uint8_t* buffer,
                          size_t valid_bytes) noexcept {
  const uint8_t* const ours = load(g_timeline.buffers);
  if (ours == nullptr || buffer < ours || buffer >= ours + kBuffers * kBufferBytes) {
    return false;
  }
  const int saved_errno = errno;
  InsideMark mark;
  ThreadState* const thread = getpid() == g_started_in ? begin_record(mark) : nullptr;
  void* record = nullptr;
  while (thread != nullptr && g_timeline.cupti.cuptiActivityGetNextRecord(
                                  buffer, valid_bytes, &record) == cupti::kSuccess) {
    write_gpu_record(*thread, record);
  }
  size_t dropped = 0;
  if (g_timeline.cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) ==
      cupti::kSuccess) {
    count(format::Stat::GpuRecordsLost, dropped);
  }
  if (thread != nullptr) {
    leave_tracer(*thread);
  } else {
    count(format::Stat::GpuRecordsLost);
  }
  publish(g_timeline.taken[(buffer - ours) / kBufferBytes], 0U);
  errno = saved_errno;
  return true;
}

}  // namespace traintrace
