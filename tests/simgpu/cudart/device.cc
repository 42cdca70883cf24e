// Devices: counting, selecting, asking, resetting.
#include <vector>

#include "cudart/api.h"
#include "cudart/devices.h"

namespace simgpu::cudart {
namespace {

Status check_device(int device) {
  int count = 0;
  SIMGPU_TRY(g_driver.cuDeviceGetCount(&count));
  return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}

Status set_primary_flags(int device, unsigned flags) {
  if (flags & ~static_cast<unsigned>(cudaDeviceMask)) {
    return cudaErrorInvalidValue;
  }
  // Mapping of host memory is always on; the driver does not take the flag.
  return g_driver.cuDevicePrimaryCtxSetFlags(device,
                                             flags & ~static_cast<unsigned>(cudaDeviceMapHost));
}

}  // namespace

// With no device or no driver the count is 0 besides the error.
SIMGPU_RT(nothing, cudaGetDeviceCount, (int* count), (count)) {
  if (!count) {
    return cudaErrorInvalidValue;
  }
  *count = 0;
  SIMGPU_TRY(need_driver());
  SIMGPU_TRY(g_driver.cuDeviceGetCount(count));
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

SIMGPU_RT(driver, cudaGetDevice, (int* device), (device)) {
  return device ? current_device(*device) : cudaErrorInvalidValue;
}

// Since CUDA 12 this also brings up the device's context.
SIMGPU_RT(driver, cudaSetDevice, (int device), (device)) {
  CUcontext context = nullptr;
  SIMGPU_TRY(primary_context(device, context));
  t_thread.device = device;
  CUcontext current = nullptr;
  SIMGPU_TRY(g_driver.cuCtxGetCurrent(&current));
  if (current != context) {
    SIMGPU_TRY(g_driver.cuCtxSetCurrent(context));
  }
  return need_context();
}

SIMGPU_RT(driver, cudaInitDevice, (int device, unsigned device_flags, unsigned flags),
          (device, device_flags, flags)) {
  if (flags & ~static_cast<unsigned>(cudaInitDeviceFlagsAreValid)) {
    return cudaErrorInvalidValue;
  }
  SIMGPU_TRY(check_device(device));
  if (flags & cudaInitDeviceFlagsAreValid) {
    SIMGPU_TRY(set_primary_flags(device, device_flags));
  }
  CUcontext context = nullptr;
  return primary_context(device, context);
}

SIMGPU_RT(driver, cudaSetValidDevices, (int* list, int length), (list, length)) {
  if (length < 0 || (length > 0 && !list)) {
    return cudaErrorInvalidValue;
  }
  for (int i = 0; i < length; ++i) {
    SIMGPU_TRY(check_device(list[i]));
  }
  set_valid_devices({list, list + length});
  return cudaSuccess;
}

SIMGPU_RT(driver, cudaSetDeviceFlags, (unsigned flags), (flags)) {
  int device = 0;
  SIMGPU_TRY(current_device(device));
  return set_primary_flags(device, flags);
}

SIMGPU_RT(driver, cudaGetDeviceFlags, (unsigned* flags), (flags)) {
  if (!flags) {
    return cudaErrorInvalidValue;
  }
  CUcontext current = nullptr;
  SIMGPU_TRY(g_driver.cuCtxGetCurrent(&current));
  if (current) {
    SIMGPU_TRY(g_driver.cuCtxGetFlags(flags));
  } else {
    int device = 0;
    int active = 0;
    SIMGPU_TRY(current_device(device));
    SIMGPU_TRY(g_driver.cuDevicePrimaryCtxGetState(device, flags, &active));
  }
  *flags |= cudaDeviceMapHost;
  return cudaSuccess;
}

SIMGPU_RT(driver, cudaDeviceReset, (), ()) {
  int device = 0;
  SIMGPU_TRY(current_device(device));
  SIMGPU_TRY(reset_device(device));
  t_thread.last_error = cudaSuccess;
  return cudaSuccess;
}

SIMGPU_RT(context, cudaDeviceSynchronize, (), ()) {
  return g_driver.cuCtxSynchronize_v2000();
}

SIMGPU_RT(driver, cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device),
          (value, attribute, device)) {
  SIMGPU_TRY(check_device(device));
  return g_driver.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device);
}

SIMGPU_RT(driver, cudaDeviceGetByPCIBusId, (int* device, const char* bus_id), (device, bus_id)) {
  return g_driver.cuDeviceGetByPCIBusId(device, bus_id);
}

SIMGPU_RT(driver, cudaDeviceGetPCIBusId, (char* bus_id, int length, int device),
          (bus_id, length, device)) {
  SIMGPU_TRY(check_device(device));
  return g_driver.cuDeviceGetPCIBusId(bus_id, length, device);
}

SIMGPU_RT(context, cudaDeviceSetLimit, (cudaLimit limit, size_t value), (limit, value)) {
  return g_driver.cuCtxSetLimit(static_cast<CUlimit>(limit), value);
}

SIMGPU_RT(context, cudaDeviceGetLimit, (size_t * value, cudaLimit limit), (value, limit)) {
  return g_driver.cuCtxGetLimit(value, static_cast<CUlimit>(limit));
}

SIMGPU_RT(context, cudaDeviceGetCacheConfig, (cudaFuncCache * config), (config)) {
  return g_driver.cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache*>(config));
}

SIMGPU_RT(context, cudaDeviceSetCacheConfig, (cudaFuncCache config), (config)) {
  return g_driver.cuCtxSetCacheConfig(static_cast<CUfunc_cache>(config));
}

SIMGPU_RT(context, cudaDeviceGetSharedMemConfig, (cudaSharedMemConfig * config), (config)) {
  return g_driver.cuCtxGetSharedMemConfig(reinterpret_cast<CUsharedconfig*>(config));
}

SIMGPU_RT(context, cudaDeviceSetSharedMemConfig, (cudaSharedMemConfig config), (config)) {
  return g_driver.cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(config));
}

SIMGPU_RT(context, cudaDeviceGetStreamPriorityRange, (int* least, int* greatest),
          (least, greatest)) {
  return g_driver.cuCtxGetStreamPriorityRange(least, greatest);
}

SIMGPU_RT(context, cudaCtxResetPersistingL2Cache, (), ()) {
  return g_driver.cuCtxResetPersistingL2Cache();
}

SIMGPU_RT(context, cudaDeviceFlushGPUDirectRDMAWrites,
          (cudaFlushGPUDirectRDMAWritesTarget target, cudaFlushGPUDirectRDMAWritesScope scope),
          (target, scope)) {
  return g_driver.cuFlushGPUDirectRDMAWrites(static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                                             static_cast<CUflushGPUDirectRDMAWritesScope>(scope));
}

SIMGPU_RT(driver, cudaDeviceGetP2PAttribute,
          (int* value, cudaDeviceP2PAttr attribute, int source, int target),
          (value, attribute, source, target)) {
  SIMGPU_TRY(check_device(source));
  SIMGPU_TRY(check_device(target));
  return g_driver.cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attribute),
                                          source, target);
}

static_assert(sizeof(cudaAtomicOperation) == sizeof(CUatomicOperation));

SIMGPU_RT(driver, cudaDeviceGetHostAtomicCapabilities,
          (unsigned* capabilities, const cudaAtomicOperation* operations, unsigned count,
           int device),
          (capabilities, operations, count, device)) {
  SIMGPU_TRY(check_device(device));
  return g_driver.cuDeviceGetHostAtomicCapabilities(
      capabilities, reinterpret_cast<const CUatomicOperation*>(operations), count, device);
}

SIMGPU_RT(driver, cudaDeviceGetP2PAtomicCapabilities,
          (unsigned* capabilities, const cudaAtomicOperation* operations, unsigned count,
           int source, int target),
          (capabilities, operations, count, source, target)) {
  SIMGPU_TRY(check_device(source));
  SIMGPU_TRY(check_device(target));
  return g_driver.cuDeviceGetP2PAtomicCapabilities(
      capabilities, reinterpret_cast<const CUatomicOperation*>(operations), count, source, target);
}

SIMGPU_RT(driver, cudaDeviceCanAccessPeer, (int* can_access, int device, int peer),
          (can_access, device, peer)) {
  SIMGPU_TRY(check_device(device));
  SIMGPU_TRY(check_device(peer));
  return g_driver.cuDeviceCanAccessPeer(can_access, device, peer);
}

SIMGPU_RT(context, cudaDeviceEnablePeerAccess, (int peer, unsigned flags), (peer, flags)) {
  CUcontext context = nullptr;
  SIMGPU_TRY(primary_context(peer, context));
  return g_driver.cuCtxEnablePeerAccess(context, flags);
}

SIMGPU_RT(context, cudaDeviceDisablePeerAccess, (int peer), (peer)) {
  CUcontext context = nullptr;
  SIMGPU_TRY(primary_context(peer, context));
  return g_driver.cuCtxDisablePeerAccess(context);
}

SIMGPU_RT(nothing, cudaRuntimeGetVersion, (int* version), (version)) {
  if (!version) {
    return cudaErrorInvalidValue;
  }
  *version = kRuntimeVersion;
  return cudaSuccess;
}

// 0 where no driver is installed; that is no error.
SIMGPU_RT(nothing, cudaDriverGetVersion, (int* version), (version)) {
  if (!version) {
    return cudaErrorInvalidValue;
  }
  *version = 0;
  return load_driver() ? Status(g_driver.cuDriverGetVersion(version)) : cudaSuccess;
}

SIMGPU_RT(context, cudaProfilerStart, (), ()) {
  return g_driver.cuProfilerStart();
}

SIMGPU_RT(context, cudaProfilerStop, (), ()) {
  return g_driver.cuProfilerStop();
}

}  // namespace simgpu::cudart
