// Device variables by their host names.
#include "cudart/symbol.h"

#include "cudart/api.h"
#include "cudart/convert.h"
#include "cudart/registry.h"

namespace simgpu::cudart {
namespace {

// The part [offset, offset + count) of a variable.
Status find_part(const void* symbol, size_t offset, size_t count, CUdeviceptr& start) {
  size_t bytes = 0;
  SIMGPU_TRY(find_variable(symbol, start, bytes));
  start += offset;
  return offset <= bytes && count <= bytes - offset ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

// A copy to a variable may come from anywhere but cannot go to the host, and vice versa.
Status find_target(const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind,
                   CUdeviceptr& start) {
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice &&
      kind != cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  return find_part(symbol, offset, count, start);
}

Status find_source(const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind,
                   CUdeviceptr& start) {
  if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice &&
      kind != cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  return find_part(symbol, offset, count, start);
}

SIMGPU_RT(context, cudaGetSymbolAddress, (void** memory, const void* symbol), (memory, symbol)) {
  if (!memory) {
    return cudaErrorInvalidValue;
  }
  size_t bytes = 0;
  return find_variable(symbol, *address_of(memory), bytes);
}

SIMGPU_RT(context, cudaGetSymbolSize, (size_t * bytes, const void* symbol), (bytes, symbol)) {
  if (!bytes) {
    return cudaErrorInvalidValue;
  }
  CUdeviceptr start = 0;
  return find_variable(symbol, start, *bytes);
}

SIMGPU_RT_STREAM(context, cudaMemcpyToSymbol, _ptds,
                 (const void* symbol, const void* source, size_t count, size_t offset,
                  cudaMemcpyKind kind),
                 (symbol, source, count, offset, kind)) {
  CUdeviceptr start = 0;
  SIMGPU_TRY(find_target(symbol, count, offset, kind, start));
  return kind == cudaMemcpyHostToDevice ? calls.cuMemcpyHtoD(start, source, count)
                                        : calls.cuMemcpy(start, address(source), count);
}

SIMGPU_RT_STREAM(context, cudaMemcpyToSymbolAsync, _ptsz,
                 (const void* symbol, const void* source, size_t count, size_t offset,
                  cudaMemcpyKind kind, cudaStream_t stream),
                 (symbol, source, count, offset, kind, stream)) {
  CUdeviceptr start = 0;
  SIMGPU_TRY(find_target(symbol, count, offset, kind, start));
  return kind == cudaMemcpyHostToDevice
             ? calls.cuMemcpyHtoDAsync(start, source, count, stream)
             : calls.cuMemcpyAsync(start, address(source), count, stream);
}

SIMGPU_RT_STREAM(context, cudaMemcpyFromSymbol, _ptds,
                 (void* target, const void* symbol, size_t count, size_t offset,
                  cudaMemcpyKind kind),
                 (target, symbol, count, offset, kind)) {
  CUdeviceptr start = 0;
  SIMGPU_TRY(find_source(symbol, count, offset, kind, start));
  return kind == cudaMemcpyDeviceToHost ? calls.cuMemcpyDtoH(target, start, count)
                                        : calls.cuMemcpy(address(target), start, count);
}

SIMGPU_RT_STREAM(context, cudaMemcpyFromSymbolAsync, _ptsz,
                 (void* target, const void* symbol, size_t count, size_t offset,
                  cudaMemcpyKind kind, cudaStream_t stream),
                 (target, symbol, count, offset, kind, stream)) {
  CUdeviceptr start = 0;
  SIMGPU_TRY(find_source(symbol, count, offset, kind, start));
  return kind == cudaMemcpyDeviceToHost
             ? calls.cuMemcpyDtoHAsync(target, start, count, stream)
             : calls.cuMemcpyAsync(address(target), start, count, stream);
}

}  // namespace simgpu::cudart
