// Everything in the runtime that differs between major versions of CUDA: the number it reports and
// the layouts that programs compiled against its headers rely on.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

namespace simgpu::cudart {

inline constexpr int kRuntimeVersion = CUDART_VERSION;

// The driver is asked for entry points of this version when a program names none.
inline constexpr unsigned kDefaultEntryPointVersion = CUDART_VERSION;

// SIMGPU_RT_OWN_PROPERTIES(SET): SET(field, attribute) for the fields of cudaDeviceProp that other
// versions do not have.
#if CUDART_VERSION >= 13000
static_assert(sizeof(cudaDeviceProp) == 1008);
static_assert(sizeof(cudaPointerAttributes) == 88);
#define SIMGPU_RT_OWN_PROPERTIES(SET)          \
  SET(deviceNumaConfig, NUMA_CONFIG)           \
  SET(deviceNumaId, NUMA_ID)                   \
  SET(mpsEnabled, MPS_ENABLED)                 \
  SET(hostNumaId, HOST_NUMA_ID)                \
  SET(gpuPciDeviceID, GPU_PCI_DEVICE_ID)       \
  SET(gpuPciSubsystemID, GPU_PCI_SUBSYSTEM_ID) \
  SET(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED)
#else
static_assert(sizeof(cudaDeviceProp) == 1032);
static_assert(sizeof(cudaPointerAttributes) == 24);
#define SIMGPU_RT_OWN_PROPERTIES(SET)                                          \
  SET(clockRate, CLOCK_RATE)                                                   \
  SET(memoryClockRate, MEMORY_CLOCK_RATE)                                      \
  SET(computeMode, COMPUTE_MODE)                                               \
  SET(deviceOverlap, GPU_OVERLAP)                                              \
  SET(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT)                           \
  SET(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH)           \
  SET(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO) \
  SET(maxTexture1DLinear, MAXIMUM_TEXTURE1D_LINEAR_WIDTH)
#endif

}  // namespace simgpu::cudart
