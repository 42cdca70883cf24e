// From what libcuda tells to CUPTI's records.
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "cupti/activities.h"
#include "simgpu_trace.h"

namespace simgpu {
namespace {

// CUPTI's clock is none of the host's: ns of an epoch of its own, here that of CLOCK_REALTIME when
// it was asked first, and going on as CLOCK_MONOTONIC.
int64_t epoch_ns() {
  static const int64_t epoch = [] {
    timespec real;
    timespec monotonic;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    return (real.tv_sec - monotonic.tv_sec) * 1'000'000'000 + real.tv_nsec - monotonic.tv_nsec;
  }();
  return epoch;
}

uint64_t time_of(int64_t monotonic_ns) {
  return static_cast<uint64_t>(monotonic_ns + epoch_ns());
}

// What all records of work have in common.
template <class Record>
Record begin(CUpti_ActivityKind kind, const simgpuActivity& activity) {
  Record record = {};
  record.kind = kind;
  record.start = time_of(activity.start_ns);
  record.end = time_of(activity.end_ns);
  record.correlationId = activity.correlation;
  record.contextId = activity.context;
  record.streamId = activity.stream;
  return record;
}

void add_kernel(const simgpuActivity& activity) {
  const bool concurrent = activities().is_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  const CUpti_ActivityKind kind =
      concurrent ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL : CUPTI_ACTIVITY_KIND_KERNEL;
  if (!activities().is_enabled(kind)) {
    return;
  }
  auto record = begin<CUpti_ActivityKernel10>(kind, activity);
  record.completed = record.end;
  record.deviceId = activity.device;
  record.gridX = static_cast<int32_t>(activity.grid[0]);
  record.gridY = static_cast<int32_t>(activity.grid[1]);
  record.gridZ = static_cast<int32_t>(activity.grid[2]);
  record.blockX = static_cast<int32_t>(activity.block[0]);
  record.blockY = static_cast<int32_t>(activity.block[1]);
  record.blockZ = static_cast<int32_t>(activity.block[2]);
  record.dynamicSharedMemory = static_cast<int32_t>(activity.shared_bytes);
  record.name = activity.name;
  activities().add(record);
}

uint8_t direction(simgpuMemory from, simgpuMemory to) {
  const auto is_host = [](simgpuMemory memory) {
    return memory == SIMGPU_PAGEABLE || memory == SIMGPU_PINNED;
  };
  if (is_host(from)) {
    return is_host(to)          ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOH
           : to == SIMGPU_ARRAY ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOA
                                : CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  }
  if (from == SIMGPU_ARRAY) {
    return is_host(to)          ? CUPTI_ACTIVITY_MEMCPY_KIND_ATOH
           : to == SIMGPU_ARRAY ? CUPTI_ACTIVITY_MEMCPY_KIND_ATOA
                                : CUPTI_ACTIVITY_MEMCPY_KIND_ATOD;
  }
  return is_host(to)          ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
         : to == SIMGPU_ARRAY ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOA
                              : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
}

void add_copy(const simgpuActivity& activity) {
  if (!activities().is_enabled(CUPTI_ACTIVITY_KIND_MEMCPY)) {
    return;
  }
  auto record = begin<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, activity);
  record.deviceId = activity.device;
  record.bytes = activity.bytes;
  record.copyKind = direction(activity.from, activity.to);
  record.srcKind = static_cast<uint8_t>(activity.from);
  record.dstKind = static_cast<uint8_t>(activity.to);
  record.copyCount = 1;
  activities().add(record);
}

void add_set(const simgpuActivity& activity) {
  if (!activities().is_enabled(CUPTI_ACTIVITY_KIND_MEMSET)) {
    return;
  }
  auto record = begin<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, activity);
  record.deviceId = activity.device;
  record.bytes = activity.bytes;
  record.value = activity.value;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  activities().add(record);
}

void add_wait(const simgpuActivity& activity) {
  if (!activities().is_enabled(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) {
    return;
  }
  auto record =
      begin<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, activity);
  record.type = activity.kind == SIMGPU_EVENT_WAIT
                    ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE
                : activity.kind == SIMGPU_STREAM_WAIT
                    ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE
                    : CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  if (activity.kind != SIMGPU_STREAM_WAIT) {
    record.streamId = static_cast<uint32_t>(CUPTI_SYNCHRONIZATION_INVALID_VALUE);
  }
  activities().add(record);
}

void worked(const simgpuActivity* activity) {
  switch (activity->kind) {
    case SIMGPU_KERNEL:
      return add_kernel(*activity);
    case SIMGPU_COPY:
      return add_copy(*activity);
    case SIMGPU_SET:
      return add_set(*activity);
    default:
      return add_wait(*activity);
  }
}

int64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

constexpr simgpuTracer kTracer = {call_subscriber, worked};

}  // namespace

Overhead::Overhead(CUpti_ActivityOverheadKind kind) : kind_(kind), begin_ns_(monotonic_ns()) {}

Overhead::~Overhead() {
  if (!activities().is_enabled(CUPTI_ACTIVITY_KIND_OVERHEAD)) {
    return;
  }
  CUpti_ActivityOverhead3 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  record.overheadKind = kind_;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.processId = static_cast<uint32_t>(getpid());
  record.objectId.pt.threadId = static_cast<uint32_t>(gettid());
  record.start = time_of(begin_ns_);
  record.end = time_of(monotonic_ns());
  activities().add(record);
}

bool trace_driver() {
  static const bool traces = [] {
    epoch_ns();
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    void* const trace = driver != nullptr ? dlsym(driver, "simgpuTrace") : nullptr;
    if (trace != nullptr) {
      reinterpret_cast<simgpuTraceFunction*>(trace)(&kTracer);
    }
    return trace != nullptr;
  }();
  return traces;
}

}  // namespace simgpu

extern "C" CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  if (timestamp == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  *timestamp = simgpu::time_of(simgpu::monotonic_ns());
  return CUPTI_SUCCESS;
}
