// Parts of device variables, for copies.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "cudart/status.h"

namespace simgpu::cudart {

// Address of the bytes [offset, offset + count) of a variable, the target of a copy of this kind.
Status find_target(const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind,
                   CUdeviceptr& start);
// The same for the source of a copy.
Status find_source(const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind,
                   CUdeviceptr& start);

}  // namespace simgpu::cudart
