// Device, managed and pinned host memory.
#include <cstring>

#include "cudart/api.h"
#include "cudart/convert.h"

namespace simgpu::cudart {
namespace {

// The driver wants to know the largest access that rows must be aligned for.
constexpr unsigned kPitchElementBytes = 16;

}  // namespace

// Nothing is allocated for 0 bytes, which the driver refuses and the runtime grants.
SIMGPU_RT(context, cudaMalloc, (void** memory, size_t bytes), (memory, bytes)) {
  if (!memory) {
    return cudaErrorInvalidValue;
  }
  if (bytes == 0) {
    *memory = nullptr;
    return cudaSuccess;
  }
  return g_driver.cuMemAlloc(address_of(memory), bytes);
}

SIMGPU_RT(context, cudaFree, (void* memory), (memory)) {
  return memory ? Status(g_driver.cuMemFree(address(memory))) : cudaSuccess;
}

SIMGPU_RT(context, cudaMallocPitch, (void** memory, size_t* pitch, size_t width, size_t height),
          (memory, pitch, width, height)) {
  if (!memory || !pitch) {
    return cudaErrorInvalidValue;
  }
  if (width == 0 || height == 0) {
    *memory = nullptr;
    *pitch = 0;
    return cudaSuccess;
  }
  return g_driver.cuMemAllocPitch(address_of(memory), pitch, width, height, kPitchElementBytes);
}

SIMGPU_RT(context, cudaMalloc3D, (cudaPitchedPtr * memory, cudaExtent extent), (memory, extent)) {
  if (!memory) {
    return cudaErrorInvalidValue;
  }
  *memory = {nullptr, 0, extent.width, extent.height};
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) {
    return cudaSuccess;
  }
  return g_driver.cuMemAllocPitch(address_of(&memory->ptr), &memory->pitch, extent.width,
                                  extent.height * extent.depth, kPitchElementBytes);
}

SIMGPU_RT(context, cudaMallocManaged, (void** memory, size_t bytes, unsigned flags),
          (memory, bytes, flags)) {
  return memory ? Status(g_driver.cuMemAllocManaged(address_of(memory), bytes, flags))
                : cudaErrorInvalidValue;
}

SIMGPU_RT(context, cudaMemGetInfo, (size_t * free_bytes, size_t* total_bytes),
          (free_bytes, total_bytes)) {
  return g_driver.cuMemGetInfo(free_bytes, total_bytes);
}

SIMGPU_RT(context, cudaMallocHost, (void** memory, size_t bytes), (memory, bytes)) {
  if (!memory) {
    return cudaErrorInvalidValue;
  }
  if (bytes == 0) {
    *memory = nullptr;
    return cudaSuccess;
  }
  return g_driver.cuMemHostAlloc(memory, bytes,
                                 CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

SIMGPU_RT(context, cudaHostAlloc, (void** memory, size_t bytes, unsigned flags),
          (memory, bytes, flags)) {
  if (!memory) {
    return cudaErrorInvalidValue;
  }
  if (bytes == 0) {
    *memory = nullptr;
    return cudaSuccess;
  }
  return g_driver.cuMemHostAlloc(memory, bytes, flags);
}

SIMGPU_RT(context, cudaFreeHost, (void* memory), (memory)) {
  return memory ? Status(g_driver.cuMemFreeHost(memory)) : cudaSuccess;
}

SIMGPU_RT(context, cudaHostRegister, (void* memory, size_t bytes, unsigned flags),
          (memory, bytes, flags)) {
  return g_driver.cuMemHostRegister(memory, bytes, flags);
}

SIMGPU_RT(context, cudaHostUnregister, (void* memory), (memory)) {
  return g_driver.cuMemHostUnregister(memory);
}

SIMGPU_RT(context, cudaHostGetDevicePointer, (void** device, void* host, unsigned flags),
          (device, host, flags)) {
  return device ? Status(g_driver.cuMemHostGetDevicePointer(address_of(device), host, flags))
                : cudaErrorInvalidValue;
}

SIMGPU_RT(context, cudaHostGetFlags, (unsigned* flags, void* host), (flags, host)) {
  return g_driver.cuMemHostGetFlags(flags, host);
}

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));

SIMGPU_RT(context, cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void* memory),
          (handle, memory)) {
  return g_driver.cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), address(memory));
}

SIMGPU_RT(context, cudaIpcOpenMemHandle, (void** memory, cudaIpcMemHandle_t handle, unsigned flags),
          (memory, handle, flags)) {
  if (!memory) {
    return cudaErrorInvalidValue;
  }
  CUipcMemHandle shared;
  memcpy(&shared, &handle, sizeof shared);
  return g_driver.cuIpcOpenMemHandle(address_of(memory), shared, flags);
}

SIMGPU_RT(context, cudaIpcCloseMemHandle, (void* memory), (memory)) {
  return g_driver.cuIpcCloseMemHandle(address(memory));
}

SIMGPU_RT(context, cudaMemAdvise,
          (const void* memory, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location),
          (memory, bytes, advice, location)) {
  return g_driver.cuMemAdvise(address(memory), bytes, static_cast<CUmem_advise>(advice),
                              driver_location(location));
}

SIMGPU_RT_STREAM(context, cudaMemPrefetchAsync, _ptsz,
                 (const void* memory, size_t bytes, cudaMemLocation location, unsigned flags,
                  cudaStream_t stream),
                 (memory, bytes, location, flags, stream)) {
  return calls.cuMemPrefetchAsync(address(memory), bytes, driver_location(location), flags, stream);
}

SIMGPU_RT_STREAM(context, cudaMemPrefetchBatchAsync, _ptsz,
                 (void** memories, size_t* bytes, size_t count, cudaMemLocation* locations,
                  size_t* location_indices, size_t location_count, unsigned long long flags,
                  cudaStream_t stream),
                 (memories, bytes, count, locations, location_indices, location_count, flags,
                  stream)) {
  return calls.cuMemPrefetchBatchAsync(address_of(memories), bytes, count,
                                       reinterpret_cast<CUmemLocation*>(locations),
                                       location_indices, location_count, flags, stream);
}

SIMGPU_RT_STREAM(context, cudaMemDiscardBatchAsync, _ptsz,
                 (void** memories, size_t* bytes, size_t count, unsigned long long flags,
                  cudaStream_t stream),
                 (memories, bytes, count, flags, stream)) {
  return calls.cuMemDiscardBatchAsync(address_of(memories), bytes, count, flags, stream);
}

SIMGPU_RT_STREAM(context, cudaMemDiscardAndPrefetchBatchAsync, _ptsz,
                 (void** memories, size_t* bytes, size_t count, cudaMemLocation* locations,
                  size_t* location_indices, size_t location_count, unsigned long long flags,
                  cudaStream_t stream),
                 (memories, bytes, count, locations, location_indices, location_count, flags,
                  stream)) {
  return calls.cuMemDiscardAndPrefetchBatchAsync(address_of(memories), bytes, count,
                                                 reinterpret_cast<CUmemLocation*>(locations),
                                                 location_indices, location_count, flags, stream);
}

SIMGPU_RT(context, cudaMemRangeGetAttribute,
          (void* data, size_t data_bytes, cudaMemRangeAttribute attribute, const void* memory,
           size_t bytes),
          (data, data_bytes, attribute, memory, bytes)) {
  return g_driver.cuMemRangeGetAttribute(
      data, data_bytes, static_cast<CUmem_range_attribute>(attribute), address(memory), bytes);
}

SIMGPU_RT(context, cudaMemRangeGetAttributes,
          (void** data, size_t* data_bytes, cudaMemRangeAttribute* attributes, size_t count,
           const void* memory, size_t bytes),
          (data, data_bytes, attributes, count, memory, bytes)) {
  return g_driver.cuMemRangeGetAttributes(data, data_bytes,
                                          reinterpret_cast<CUmem_range_attribute*>(attributes),
                                          count, address(memory), bytes);
}

}  // namespace simgpu::cudart
