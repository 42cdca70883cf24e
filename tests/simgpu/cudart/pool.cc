// Stream-ordered allocation and memory pools.
#include "cudart/api.h"
#include "cudart/convert.h"

namespace simgpu::cudart {

SIMGPU_RT_STREAM(context, cudaMallocAsync, _ptsz,
                 (void** memory, size_t bytes, cudaStream_t stream), (memory, bytes, stream)) {
  if (!memory) {
    return cudaErrorInvalidValue;
  }
  if (bytes == 0) {
    *memory = nullptr;
    return cudaSuccess;
  }
  return calls.cuMemAllocAsync(address_of(memory), bytes, stream);
}

SIMGPU_RT_STREAM(context, cudaFreeAsync, _ptsz, (void* memory, cudaStream_t stream),
                 (memory, stream)) {
  return memory ? Status(calls.cuMemFreeAsync(address(memory), stream)) : cudaSuccess;
}

SIMGPU_RT_STREAM(context, cudaMallocFromPoolAsync, _ptsz,
                 (void** memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                 (memory, bytes, pool, stream)) {
  if (!memory) {
    return cudaErrorInvalidValue;
  }
  if (bytes == 0) {
    *memory = nullptr;
    return cudaSuccess;
  }
  return calls.cuMemAllocFromPoolAsync(address_of(memory), bytes, pool, stream);
}

SIMGPU_RT(driver, cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device), (pool, device)) {
  return g_driver.cuDeviceGetDefaultMemPool(pool, device);
}

SIMGPU_RT(driver, cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device), (pool, device)) {
  return g_driver.cuDeviceGetMemPool(pool, device);
}

SIMGPU_RT(driver, cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), (device, pool)) {
  return g_driver.cuDeviceSetMemPool(device, pool);
}

SIMGPU_RT(context, cudaMemGetDefaultMemPool,
          (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
          (pool, location, type)) {
  return g_driver.cuMemGetDefaultMemPool(pool, reinterpret_cast<CUmemLocation*>(location),
                                         static_cast<CUmemAllocationType>(type));
}

SIMGPU_RT(context, cudaMemGetMemPool,
          (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
          (pool, location, type)) {
  return g_driver.cuMemGetMemPool(pool, reinterpret_cast<CUmemLocation*>(location),
                                  static_cast<CUmemAllocationType>(type));
}

SIMGPU_RT(context, cudaMemSetMemPool,
          (cudaMemLocation * location, cudaMemAllocationType type, cudaMemPool_t pool),
          (location, type, pool)) {
  return g_driver.cuMemSetMemPool(reinterpret_cast<CUmemLocation*>(location),
                                  static_cast<CUmemAllocationType>(type), pool);
}

static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(sizeof(cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData));

SIMGPU_RT(context, cudaMemPoolCreate, (cudaMemPool_t * pool, const cudaMemPoolProps* props),
          (pool, props)) {
  return g_driver.cuMemPoolCreate(pool, reinterpret_cast<const CUmemPoolProps*>(props));
}

SIMGPU_RT(context, cudaMemPoolDestroy, (cudaMemPool_t pool), (pool)) {
  return g_driver.cuMemPoolDestroy(pool);
}

SIMGPU_RT(context, cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes), (pool, bytes)) {
  return g_driver.cuMemPoolTrimTo(pool, bytes);
}

SIMGPU_RT(context, cudaMemPoolSetAttribute,
          (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value), (pool, attribute, value)) {
  return g_driver.cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
}

SIMGPU_RT(context, cudaMemPoolGetAttribute,
          (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value), (pool, attribute, value)) {
  return g_driver.cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
}

SIMGPU_RT(context, cudaMemPoolSetAccess,
          (cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count),
          (pool, access, count)) {
  return g_driver.cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(access), count);
}

SIMGPU_RT(context, cudaMemPoolGetAccess,
          (cudaMemAccessFlags * flags, cudaMemPool_t pool, cudaMemLocation* location),
          (flags, pool, location)) {
  return g_driver.cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool,
                                     reinterpret_cast<CUmemLocation*>(location));
}

SIMGPU_RT(context, cudaMemPoolExportToShareableHandle,
          (void* handle, cudaMemPool_t pool, cudaMemAllocationHandleType type, unsigned flags),
          (handle, pool, type, flags)) {
  return g_driver.cuMemPoolExportToShareableHandle(
      handle, pool, static_cast<CUmemAllocationHandleType>(type), flags);
}

SIMGPU_RT(context, cudaMemPoolImportFromShareableHandle,
          (cudaMemPool_t * pool, void* handle, cudaMemAllocationHandleType type, unsigned flags),
          (pool, handle, type, flags)) {
  return g_driver.cuMemPoolImportFromShareableHandle(
      pool, handle, static_cast<CUmemAllocationHandleType>(type), flags);
}

SIMGPU_RT(context, cudaMemPoolExportPointer, (cudaMemPoolPtrExportData * data, void* memory),
          (data, memory)) {
  return g_driver.cuMemPoolExportPointer(reinterpret_cast<CUmemPoolPtrExportData*>(data),
                                         address(memory));
}

SIMGPU_RT(context, cudaMemPoolImportPointer,
          (void** memory, cudaMemPool_t pool, cudaMemPoolPtrExportData* data),
          (memory, pool, data)) {
  return g_driver.cuMemPoolImportPointer(address_of(memory), pool,
                                         reinterpret_cast<CUmemPoolPtrExportData*>(data));
}

}  // namespace simgpu::cudart
