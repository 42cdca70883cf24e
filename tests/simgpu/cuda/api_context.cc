#include <cuda.h>

#include <algorithm>

#include "common/entry.h"
#include "cuda/capture.h"
#include "cuda/context_memory.h"
#include "cuda/state.h"
#include "cuda/tracing.h"

using namespace simgpu;

namespace {

constexpr unsigned kContextFlags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
                                   CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE |
                                   CU_CTX_SYNC_MEMOPS;

bool usable(const Context* context) {
  return context && context->alive.load();
}

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
  if (!out || (flags & ~kContextFlags)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  Context* context = new_context(device, flags, false);
  SIMGPU_TRY(charge_context(*context));
  context_stack().push_back(context);
  *out = context;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned flags,
                        CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (parameters && (parameters->numExecAffinityParams != 0 || parameters->cigParams)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return create(out, flags, device);
}

extern "C" CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  return create(out, flags, device);
}

extern "C" CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int count, unsigned flags,
                                   CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  return count == 0 ? create(out, flags, device) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  SIMGPU_DRIVER_ENTER();
  if (!usable(context) || context->primary) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (current_context() == context) {
    context_stack().pop_back();
  }
  tear_down(*context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  SIMGPU_DRIVER_ENTER();
  if (!usable(context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  context_stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  SIMGPU_DRIVER_ENTER();
  if (context_stack().empty()) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (out) {
    *out = context_stack().back();
  }
  context_stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  SIMGPU_DRIVER_ENTER();
  if (context && !usable(context)) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  set_current_context(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  SIMGPU_DRIVER_ENTER();
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = current_context();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  SIMGPU_DRIVER_ENTER();
  if (!device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!current_context()) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *device = current_context()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  SIMGPU_DRIVER_ENTER();
  context = context ? context : current_context();
  if (!device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
  SIMGPU_CONTEXT_ENTER();
  if (!flags) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = current_context()->flags.load();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  if (flags & ~kContextFlags) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  current_context()->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  SIMGPU_DRIVER_ENTER();
  context = context ? context : current_context();
  if (!id) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(context)) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  SIMGPU_DRIVER_ENTER();
  context = context ? context : current_context();
  if (!version) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *version = 3020;  // what drivers since 3.2 answer
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  SIMGPU_CONTEXT_ENTER();
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  Context& context = *current_context();
  const TracedWait traced(SIMGPU_CONTEXT_WAIT, &context, 0);
  const CUresult result = synchronize(context);
  trim_pools(context.device);
  return result;
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  SIMGPU_DRIVER_ENTER();
  context = context ? context : current_context();
  if (!usable(context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  const TracedWait traced(SIMGPU_CONTEXT_WAIT, context, 0);
  return synchronize(*context);
}

// Plausible defaults; a limit that is set is given back and changes nothing else.
CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  SIMGPU_CONTEXT_ENTER();
  static const std::map<int, size_t>& defaults = *new std::map<int, size_t>{
      {CU_LIMIT_STACK_SIZE, 1024},
      {CU_LIMIT_PRINTF_FIFO_SIZE, 1048576},
      {CU_LIMIT_MALLOC_HEAP_SIZE, 8388608},
      {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2},
      {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
      {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 128},
      {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0},
  };
  const auto found = defaults.find(limit);
  if (!value) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (found == defaults.end()) {
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
  Context& context = *current_context();
  const std::lock_guard lock(context.mutex);
  const auto set = context.limits.find(limit);
  *value = set != context.limits.end() ? set->second : found->second;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  SIMGPU_CONTEXT_ENTER();
  size_t before = 0;
  SIMGPU_TRY(cuCtxGetLimit(&before, limit));
  Context& context = *current_context();
  const std::lock_guard lock(context.mutex);
  context.limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  SIMGPU_CONTEXT_ENTER();
  if (!config) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *config = CU_FUNC_CACHE_PREFER_NONE;  // as on parts whose split cannot be chosen
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache) {
  SIMGPU_CONTEXT_ENTER();
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache() {
  SIMGPU_CONTEXT_ENTER();
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  if (flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(peer)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  Context& context = *current_context();
  if (peer->device == context.device) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const std::lock_guard lock(context.mutex);
  if (std::count(context.peers.begin(), context.peers.end(), peer->device)) {
    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  }
  context.peers.push_back(peer->device);
  return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  SIMGPU_CONTEXT_ENTER();
  if (!usable(peer)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  Context& context = *current_context();
  const std::lock_guard lock(context.mutex);
  return std::erase(context.peers, peer->device) ? CUDA_SUCCESS
                                                 : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice ordinal) {
  SIMGPU_DRIVER_ENTER();
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(ordinal)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  Device& device = device_at(ordinal);
  const std::lock_guard lock(device.mutex);
  if (!usable(device.primary)) {
    Context* context = new_context(ordinal, device.primary_flags, true);
    SIMGPU_TRY(charge_context(*context));
    device.primary = context;
  }
  ++device.primary_references;
  *out = device.primary;
  return CUDA_SUCCESS;
}

namespace {

// Takes the primary context out of use; the caller tears it down without the device's lock.
Context* drop_primary(CUdevice ordinal, bool all_references) {
  Device& device = device_at(ordinal);
  const std::lock_guard lock(device.mutex);
  if (!usable(device.primary) || device.primary_references == 0) {
    return nullptr;
  }
  device.primary_references = all_references ? 0 : device.primary_references - 1;
  if (device.primary_references > 0) {
    return nullptr;
  }
  Context* context = device.primary;
  device.primary = nullptr;
  return context;
}

}  // namespace

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  SIMGPU_DRIVER_ENTER();
  if (!valid_device(ordinal)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  {
    Device& device = device_at(ordinal);
    const std::lock_guard lock(device.mutex);
    if (device.primary_references == 0) {
      return CUDA_ERROR_INVALID_CONTEXT;
    }
  }
  if (Context* context = drop_primary(ordinal, false)) {
    tear_down(*context);
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  SIMGPU_DRIVER_ENTER();
  if (!valid_device(ordinal)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  if (Context* context = drop_primary(ordinal, true)) {
    tear_down(*context);
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  if (!valid_device(ordinal)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  if (flags & ~kContextFlags) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Device& device = device_at(ordinal);
  const std::lock_guard lock(device.mutex);
  device.primary_flags = flags;
  if (usable(device.primary)) {
    device.primary->flags = flags;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active) {
  SIMGPU_DRIVER_ENTER();
  if (!valid_device(ordinal)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  if (!flags || !active) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Device& device = device_at(ordinal);
  const std::lock_guard lock(device.mutex);
  *flags = device.primary_flags;
  *active = usable(device.primary) ? 1 : 0;
  return CUDA_SUCCESS;
}
