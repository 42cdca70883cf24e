// One-dimensional copies: between host and device, devices, batches.
#include "cudart/api.h"
#include "cudart/convert.h"

namespace simgpu::cudart {

// The kind chooses the driver's entry, as tools that watch the driver expect.
SIMGPU_RT_STREAM(context, cudaMemcpy, _ptds,
                 (void* target, const void* source, size_t bytes, cudaMemcpyKind kind),
                 (target, source, bytes, kind)) {
  CopyTypes types;
  SIMGPU_TRY(copy_types(kind, types));
  if (bytes == 0) {
    return cudaSuccess;
  }
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return calls.cuMemcpyHtoD(address(target), source, bytes);
    case cudaMemcpyDeviceToHost:
      return calls.cuMemcpyDtoH(target, address(source), bytes);
    case cudaMemcpyDeviceToDevice:
      return calls.cuMemcpyDtoD(address(target), address(source), bytes);
    default:
      return calls.cuMemcpy(address(target), address(source), bytes);
  }
}

SIMGPU_RT_STREAM(context, cudaMemcpyAsync, _ptsz,
                 (void* target, const void* source, size_t bytes, cudaMemcpyKind kind,
                  cudaStream_t stream),
                 (target, source, bytes, kind, stream)) {
  CopyTypes types;
  SIMGPU_TRY(copy_types(kind, types));
  if (bytes == 0) {
    return cudaSuccess;
  }
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return calls.cuMemcpyHtoDAsync(address(target), source, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return calls.cuMemcpyDtoHAsync(target, address(source), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return calls.cuMemcpyDtoDAsync(address(target), address(source), bytes, stream);
    default:
      return calls.cuMemcpyAsync(address(target), address(source), bytes, stream);
  }
}

SIMGPU_RT(context, cudaMemcpyPeer,
          (void* target, int target_device, const void* source, int source_device, size_t bytes),
          (target, target_device, source, source_device, bytes)) {
  CUcontext to = nullptr;
  CUcontext from = nullptr;
  SIMGPU_TRY(primary_context(target_device, to));
  SIMGPU_TRY(primary_context(source_device, from));
  return bytes == 0 ? Status(cudaSuccess)
                    : Status(g_driver.legacy.cuMemcpyPeer(address(target), to, address(source),
                                                          from, bytes));
}

SIMGPU_RT(context, cudaMemcpyPeerAsync,
          (void* target, int target_device, const void* source, int source_device, size_t bytes,
           cudaStream_t stream),
          (target, target_device, source, source_device, bytes, stream)) {
  CUcontext to = nullptr;
  CUcontext from = nullptr;
  SIMGPU_TRY(primary_context(target_device, to));
  SIMGPU_TRY(primary_context(source_device, from));
  return bytes == 0 ? Status(cudaSuccess)
                    : Status(g_driver.legacy.cuMemcpyPeerAsync(address(target), to, address(source),
                                                               from, bytes, stream));
}

static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes));

SIMGPU_RT_STREAM(context, cudaMemcpyBatchAsync, _ptsz,
                 (void* const* targets, const void* const* sources, const size_t* bytes,
                  size_t count, cudaMemcpyAttributes* attributes, size_t* attribute_indices,
                  size_t attribute_count, cudaStream_t stream),
                 (targets, sources, bytes, count, attributes, attribute_indices, attribute_count,
                  stream)) {
  // The driver's version takes the same arrays without the const.
  return calls.cuMemcpyBatchAsync(address_of(const_cast<void**>(targets)),
                                  reinterpret_cast<CUdeviceptr*>(const_cast<const void**>(sources)),
                                  const_cast<size_t*>(bytes), count,
                                  reinterpret_cast<CUmemcpyAttributes*>(attributes),
                                  attribute_indices, attribute_count, stream);
}

// Of CUDA 13.2.
SIMGPU_RT_STREAM(context, cudaMemcpyWithAttributesAsync, _ptsz,
                 (void* target, const void* source, size_t bytes, cudaMemcpyAttributes* attributes,
                  cudaStream_t stream),
                 (target, source, bytes, attributes, stream)) {
  CUdeviceptr to = address(target), from = address(source);
  size_t first = 0;
  return calls.cuMemcpyBatchAsync(
      &to, &from, &bytes, 1, reinterpret_cast<CUmemcpyAttributes*>(attributes), &first, 1, stream);
}

}  // namespace simgpu::cudart
