// Everything in the runtime that differs between major versions of CUDA: the number it reports and
// the layouts that programs compiled against its headers rely on.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

namespace simgpu::cudart {

inline constexpr int kRuntimeVersion = CUDART_VERSION;

// The driver is asked for entry points of this version when a program names none.
inline constexpr unsigned kDefaultEntryPointVersion = CUDART_VERSION;

#if CUDART_VERSION >= 13000
static_assert(sizeof(cudaDeviceProp) == 1008);
static_assert(sizeof(cudaPointerAttributes) == 88);
#else
static_assert(sizeof(cudaDeviceProp) == 1032);
static_assert(sizeof(cudaPointerAttributes) == 24);
#endif

}  // namespace simgpu::cudart
