#include "interpose/gpu/own_gpu.h"

// cuda.h renames functions by macros, calls.def wants their names.
#define __CUDA_API_VERSION_INTERNAL  // NOLINT(bugprone-reserved-identifier)
#include <cuda.h>
#include <stdlib.h>

#include "interpose/base/files.h"
#include "interpose/calls/open_call.h"
#include "interpose/calls/resolve.h"
#include "interpose/gpu/marks.h"
#include "interpose/gpu/marks_driver.h"
#include "interpose/payload/checks_driver.h"
#include "interpose/payload/scalars.h"
#include "interpose/stacks/objects.h"
#include "interpose/tables/communicators.h"

namespace traintrace {
namespace {

constexpr const char* kDriver = "libcuda.so.1";

struct Driver {
  decltype(&cuCtxGetDevice) ctx_get_device;
  decltype(&cuMemHostRegister_v2) mem_host_register;
  decltype(&cuMemHostGetDevicePointer_v2) mem_host_get_device_pointer;
  decltype(&cuMemHostGetFlags) mem_host_get_flags;
  decltype(&cuStreamIsCapturing) stream_is_capturing;
};
constinit Driver g_driver = {};
constinit int32_t g_device = -1;

bool find_driver() {
  return find_own_gpu("cuCtxGetDevice", g_driver.ctx_get_device) &&
         find_own_gpu("cuMemHostRegister_v2", g_driver.mem_host_register) &&
         find_own_gpu("cuMemHostGetDevicePointer_v2", g_driver.mem_host_get_device_pointer) &&
         find_own_gpu("cuMemHostGetFlags", g_driver.mem_host_get_flags) &&
         find_own_gpu("cuStreamIsCapturing", g_driver.stream_is_capturing);
}

bool says(const char* variable, const char* value) {
  const char* const is = getenv(variable);
  return is && equal(is, value);
}

// Null: nothing speaks against it.
const char* reason_against(GpuOccasion occasion) {
  if (says("CUDA_DEVICE_MAX_CONNECTIONS", "1")) {
    return "CUDA_DEVICE_MAX_CONNECTIONS is 1";
  }
  if (says("NCCL_COMM_BLOCKING", "0")) {
    return "NCCL_COMM_BLOCKING is 0";
  }
  if (occasion == GpuOccasion::kSeveralDevices) {
    return "several devices in one process";
  }
  if (communicators_used() != 0) {
    return "a communicator was there before";
  }
  return find_driver() ? nullptr : "the driver lacks a function that it needs";
}

enum Decision : uint8_t { kOpen, kUnderWay, kMade };
constinit uint8_t g_decision = kOpen;
constinit uint64_t g_decided_for = 0;  // generation

CUresult ask_device(ThreadState& thread, CUdevice& device) {
  const OwnCall own(thread);
  return g_driver.ctx_get_device(&device);
}

}  // namespace

void* own_gpu_function(const char* name) noexcept {
  void* const library = handle_if_loaded(kDriver);
  return library == nullptr ? nullptr : real_lookup(library, name);
}

uint64_t own_gpu_pin(ThreadState& thread, void* memory, size_t bytes) noexcept {
  constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  CUdeviceptr address = 0;
  const OwnCall own(thread);
  const bool pinned = g_driver.mem_host_register(memory, bytes, kFlags) == CUDA_SUCCESS &&
                      g_driver.mem_host_get_device_pointer(&address, memory, 0) == CUDA_SUCCESS;
  return pinned ? address : 0;
}

// What is captured would be done at each launch of the graph.  Asking does not end a capture, not
// even for the legacy stream.  And the memory is pinned no longer once its context has ended.
StreamState own_gpu_stream(ThreadState& thread, uint64_t stream, const void* pinned) noexcept {
  unsigned flags = 0;
  CUresult is_pinned = CUDA_SUCCESS;
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CUresult asked = CUDA_SUCCESS;
  CUdevice device = -1;
  CUresult context = CUDA_SUCCESS;
  {
    const OwnCall own(thread);
    context = g_driver.ctx_get_device(&device);
    is_pinned = context == CUDA_SUCCESS
                    ? g_driver.mem_host_get_flags(&flags, const_cast<void*>(pinned))
                    : is_pinned;
    asked = g_driver.stream_is_capturing(reinterpret_cast<CUstream>(stream), &capturing);
  }
  if (is_pinned == CUDA_ERROR_INVALID_VALUE) {
    return StreamState::kContextEnded;
  }
  const bool free = context == CUDA_SUCCESS && is_pinned == CUDA_SUCCESS && asked == CUDA_SUCCESS &&
                    capturing == CU_STREAM_CAPTURE_STATUS_NONE;
  return free ? StreamState::kFree : StreamState::kNotNow;
}

int32_t own_gpu_device() noexcept {
  return load(g_device);
}

void own_gpu_prepare(ThreadState& thread, GpuOccasion occasion) noexcept {
  const bool marks = g_gpu_progress == GpuProgress::kMarks;
  const bool checks = g_payload >= Payload::kSmall;
  if (!marks && !checks) {
    return;
  }
  if (load(g_decided_for) != thread.generation) {  // in a forked child, anew
    publish(g_decision, uint8_t{kOpen});
    publish(g_decided_for, thread.generation);
  }
  if (!exchange_if(g_decision, uint8_t{kOpen}, uint8_t{kUnderWay})) {
    return;
  }
  // Many a program makes the id first of all, and the runtime loads the driver with its first call.
  if (occasion == GpuOccasion::kUniqueId && handle_if_loaded(kDriver) == nullptr) {
    publish(g_decision, uint8_t{kOpen});
    return;
  }
  const char* against = reason_against(occasion);
  CUdevice device = -1;
  if (!against) {
    const CUresult context = ask_device(thread, device);
    if (context != CUDA_SUCCESS && occasion == GpuOccasion::kUniqueId) {
      publish(g_decision, uint8_t{kOpen});
      return;
    }
    against =
        context == CUDA_SUCCESS ? nullptr : "no context was current before the first communicator";
    publish(g_device, device);
  }
  if (marks) {
    marks_decide(thread, against);
  }
  if (checks) {
    checks_decide(thread, against);
  }
  publish(g_decision, uint8_t{kMade});
}

}  // namespace traintrace
