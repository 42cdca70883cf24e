#include "interpose/marks_driver.h"

// cuda.h renames functions by macros, calls.def wants their names.
#define __CUDA_API_VERSION_INTERNAL  // NOLINT(bugprone-reserved-identifier)
#include <cuda.h>
#include <stdlib.h>

#include "interpose/communicators.h"
#include "interpose/facts.h"
#include "interpose/files.h"
#include "interpose/marks.h"
#include "interpose/marks_file.h"
#include "interpose/objects.h"
#include "interpose/open_call.h"
#include "interpose/resolve.h"
#include "interpose/told.h"

namespace traintrace {
namespace {

struct Driver {
  decltype(&cuCtxGetDevice) ctx_get_device;
  decltype(&cuMemHostRegister_v2) mem_host_register;
  decltype(&cuMemHostGetDevicePointer_v2) mem_host_get_device_pointer;
  decltype(&cuMemHostGetFlags) mem_host_get_flags;
  decltype(&cuStreamIsCapturing) stream_is_capturing;
  decltype(&cuStreamWriteValue32_v2) stream_write_value;
};
constinit Driver g_driver = {};
constinit format::MarkWords* g_words = nullptr;
constinit CUdeviceptr g_device_words = 0;

template <class Function>
void find(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(real_lookup(library, name));
}

// The driver's own functions: what is preloaded before it has nothing to do with our calls.
bool find_driver() {
  void* const library = handle_if_loaded("libcuda.so.1");
  if (library == nullptr) {
    return false;
  }
  find(library, "cuCtxGetDevice", g_driver.ctx_get_device);
  find(library, "cuMemHostRegister_v2", g_driver.mem_host_register);
  find(library, "cuMemHostGetDevicePointer_v2", g_driver.mem_host_get_device_pointer);
  find(library, "cuMemHostGetFlags", g_driver.mem_host_get_flags);
  find(library, "cuStreamIsCapturing", g_driver.stream_is_capturing);
  find(library, "cuStreamWriteValue32_v2", g_driver.stream_write_value);
  return g_driver.ctx_get_device && g_driver.mem_host_register &&
         g_driver.mem_host_get_device_pointer && g_driver.mem_host_get_flags &&
         g_driver.stream_is_capturing && g_driver.stream_write_value;
}

CUstream stream_of(uint64_t handle) {
  return reinterpret_cast<CUstream>(handle);
}

// A captured mark would be written at each launch of the graph.  Asking does not end a capture, not
// even for the legacy stream.  And the memory is pinned no longer once its context has ended.
bool may_write(ThreadState& thread, uint64_t stream) {
  unsigned flags = 0;
  CUresult pinned = CUDA_SUCCESS;
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CUresult asked = CUDA_SUCCESS;
  CUdevice device = -1;
  CUresult context = CUDA_SUCCESS;
  {
    const OwnCall own(thread);
    context = g_driver.ctx_get_device(&device);
    pinned = context == CUDA_SUCCESS ? g_driver.mem_host_get_flags(&flags, g_words) : pinned;
    asked = g_driver.stream_is_capturing(stream_of(stream), &capturing);
  }
  if (pinned == CUDA_ERROR_INVALID_VALUE) {
    marks_turn_off(thread, "the context that the memory was pinned in has ended");
    return false;
  }
  return context == CUDA_SUCCESS && pinned == CUDA_SUCCESS && asked == CUDA_SUCCESS &&
         capturing == CU_STREAM_CAPTURE_STATUS_NONE;
}

bool write(ThreadState& thread, uint64_t stream, const uint32_t& word, uint32_t value) {
  const auto offset = reinterpret_cast<const char*>(&word) - reinterpret_cast<const char*>(g_words);
  const OwnCall own(thread);
  return g_driver.stream_write_value(stream_of(stream),
                                     g_device_words + static_cast<size_t>(offset), value,
                                     CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS;
}

bool says(const char* variable, const char* value) {
  const char* const is = getenv(variable);
  return is && equal(is, value);
}

// Null: nothing speaks against marks.
const char* reason_against(MarksOccasion occasion) {
  if (g_tables.progress == nullptr) {
    return "there was no room for its tables";
  }
  if (says("CUDA_DEVICE_MAX_CONNECTIONS", "1")) {
    return "CUDA_DEVICE_MAX_CONNECTIONS is 1";
  }
  if (says("NCCL_COMM_BLOCKING", "0")) {
    return "NCCL_COMM_BLOCKING is 0";
  }
  if (occasion == MarksOccasion::kSeveralDevices) {
    return "several devices in one process";
  }
  if (communicators_used() != 0) {
    return "a communicator was there before";
  }
  return find_driver() ? nullptr : "the driver lacks a function that it needs";
}

bool pin(size_t bytes) {
  constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  return g_driver.mem_host_register(g_words, bytes, kFlags) == CUDA_SUCCESS &&
         g_driver.mem_host_get_device_pointer(&g_device_words, g_words, 0) == CUDA_SUCCESS;
}

// Null: marks are on.
const char* turn_on(ThreadState& thread, CUdevice device) {
  g_words = marks_file_create(thread);
  if (g_words == nullptr) {
    return "no file in memory could be made";
  }
  bool pinned = false;
  {
    const OwnCall own(thread);
    pinned = pin(marks_words_bytes());
  }
  if (!pinned) {
    marks_file_remove();
    return "the driver refused to pin memory";
  }
  marks_turn_on({may_write, write}, g_words, device);
  return nullptr;
}

void decide(ThreadState& thread, const char* against) {
  ShortText value;
  if (against) {
    value << "observe: " << against;
  } else {
    value << "marks";
  }
  write_fact(thread, "gpu-progress", value.c_str());
  if (against) {
    tell_refused(format::Setting::GpuProgress, "progress is only observed", against);
  }
}

enum Decision : uint8_t { kOpen, kUnderWay, kMade };
constinit uint8_t g_decision = kOpen;
constinit uint64_t g_decided_for = 0;  // generation

}  // namespace

void marks_prepare(ThreadState& thread, MarksOccasion occasion) noexcept {
  if (g_gpu_progress != GpuProgress::kMarks) {
    return;
  }
  if (load(g_decided_for) != thread.generation) {  // in a forked child, anew
    publish(g_decision, uint8_t{kOpen});
    publish(g_decided_for, thread.generation);
  }
  if (!exchange_if(g_decision, uint8_t{kOpen}, uint8_t{kUnderWay})) {
    return;
  }
  const char* against = reason_against(occasion);
  CUdevice device = -1;
  if (!against) {
    CUresult context = CUDA_SUCCESS;
    {
      const OwnCall own(thread);
      context = g_driver.ctx_get_device(&device);
    }
    if (context != CUDA_SUCCESS && occasion == MarksOccasion::kUniqueId) {
      publish(g_decision, uint8_t{kOpen});
      return;
    }
    against = context == CUDA_SUCCESS ? turn_on(thread, device)
                                      : "no context was current before the first communicator";
  }
  decide(thread, against);
  publish(g_decision, uint8_t{kMade});
}

}  // namespace traintrace
