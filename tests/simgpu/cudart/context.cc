#include "cudart/context.h"

#include <mutex>
#include <vector>

#include "cudart/devices.h"
#include "cudart/registry.h"

namespace simgpu::cudart {
namespace {

std::atomic<bool> g_initialised = false;

struct Primary {
  CUcontext context = nullptr;
  bool retained = false;
};

// Which devices the program allows, and which primary contexts this runtime holds.
struct Devices {
  std::mutex mutex;
  std::vector<int> valid;  // empty: all, in order
  std::vector<Primary> primaries;
};

Devices& devices() {
  static Devices& value = *new Devices;
  return value;
}

// A context that cudaDeviceReset gave back: it is no longer what its handle says.
bool was_reset(CUcontext context) {
  const std::lock_guard lock(devices().mutex);
  for (const Primary& primary : devices().primaries) {
    if (primary.context == context) {
      return !primary.retained;
    }
  }
  return false;
}

int selected_device() {
  if (t_thread.device >= 0) {
    return t_thread.device;
  }
  const std::lock_guard lock(devices().mutex);
  return devices().valid.empty() ? 0 : devices().valid.front();
}

}  // namespace

thread_local constinit ThreadState t_thread;
std::atomic<uint64_t> g_generation = 1;

Status need_driver() {
  if (__builtin_expect(g_initialised.load(std::memory_order_acquire), 1)) {
    return cudaSuccess;
  }
  if (!load_driver()) {
    return cudaErrorInsufficientDriver;
  }
  SIMGPU_TRY(g_driver.cuInit(0));
  g_initialised.store(true, std::memory_order_release);
  return cudaSuccess;
}

Status need_context_slowly() {
  SIMGPU_TRY(need_driver());
  const uint64_t generation = g_generation.load(std::memory_order_acquire);
  CUcontext current = nullptr;
  SIMGPU_TRY(g_driver.cuCtxGetCurrent(&current));
  if (!current || was_reset(current)) {
    SIMGPU_TRY(primary_context(selected_device(), current));
    SIMGPU_TRY(g_driver.cuCtxSetCurrent(current));
  }
  t_thread.ready = current;
  t_thread.ready_generation = generation;
  load_modules_eagerly();
  return cudaSuccess;
}

Status current_device(int& device) {
  CUcontext current = nullptr;
  CUdevice of_context = 0;
  SIMGPU_TRY(g_driver.cuCtxGetCurrent(&current));
  if (current && (is_ready(current) || !was_reset(current)) &&
      g_driver.cuCtxGetDevice_v2000(&of_context) == CUDA_SUCCESS) {
    device = of_context;
  } else {
    device = selected_device();
  }
  return cudaSuccess;
}

Status primary_context(int device, CUcontext& context) {
  int count = 0;
  SIMGPU_TRY(g_driver.cuDeviceGetCount(&count));
  if (count == 0) {
    return cudaErrorNoDevice;
  }
  if (device < 0 || device >= count) {
    return cudaErrorInvalidDevice;
  }
  const std::lock_guard lock(devices().mutex);
  devices().primaries.resize(static_cast<size_t>(count));
  Primary& primary = devices().primaries[static_cast<size_t>(device)];
  if (!primary.retained) {
    SIMGPU_TRY(g_driver.cuDevicePrimaryCtxRetain(&primary.context, device));
    primary.retained = true;
  }
  context = primary.context;
  return cudaSuccess;
}

Status reset_device(int device) {
  {
    const std::lock_guard lock(devices().mutex);
    const size_t index = static_cast<size_t>(device);
    if (index < devices().primaries.size()) {
      devices().primaries[index].retained = false;
    }
  }
  const Status reset = g_driver.cuDevicePrimaryCtxReset(device);
  // The retain of primary_context(); resetting does not take it back.
  (void)g_driver.cuDevicePrimaryCtxRelease(device);
  g_generation.fetch_add(1, std::memory_order_acq_rel);
  return reset;
}

void set_valid_devices(std::vector<int> valid) {
  const std::lock_guard lock(devices().mutex);
  devices().valid = std::move(valid);
}

}  // namespace simgpu::cudart
