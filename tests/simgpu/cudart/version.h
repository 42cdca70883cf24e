// Everything in the runtime that differs between major versions of CUDA: the number it reports and
// the layouts that programs compiled against its headers rely on.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "cudart/cuda12.h"

namespace simgpu::cudart {

// SIMGPU_RT_OWN_PROPERTIES(SET): SET(field, attribute) for the fields of DeviceProperties that
// other versions do not have.
#ifdef SIMGPU_CUDA12
inline constexpr int kRuntimeVersion = 12040;
using DeviceProperties = cuda12::DeviceProperties;
using PointerAttributes = cuda12::PointerAttributes;
#define SIMGPU_RT_OWN_PROPERTIES(SET)                                          \
  SET(clockRate, CLOCK_RATE)                                                   \
  SET(memoryClockRate, MEMORY_CLOCK_RATE)                                      \
  SET(computeMode, COMPUTE_MODE)                                               \
  SET(deviceOverlap, GPU_OVERLAP)                                              \
  SET(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT)                           \
  SET(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH)           \
  SET(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO) \
  SET(maxTexture1DLinear, MAXIMUM_TEXTURE1D_LINEAR_WIDTH)
#else
inline constexpr int kRuntimeVersion = CUDART_VERSION;
using DeviceProperties = cudaDeviceProp;
using PointerAttributes = cudaPointerAttributes;
static_assert(sizeof(DeviceProperties) == 1008);
static_assert(sizeof(PointerAttributes) == 88);
#define SIMGPU_RT_OWN_PROPERTIES(SET)          \
  SET(deviceNumaConfig, NUMA_CONFIG)           \
  SET(deviceNumaId, NUMA_ID)                   \
  SET(mpsEnabled, MPS_ENABLED)                 \
  SET(hostNumaId, HOST_NUMA_ID)                \
  SET(gpuPciDeviceID, GPU_PCI_DEVICE_ID)       \
  SET(gpuPciSubsystemID, GPU_PCI_SUBSYSTEM_ID) \
  SET(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED)
#endif

// The driver is asked for entry points of this version when a program names none.
inline constexpr unsigned kDefaultEntryPointVersion = kRuntimeVersion;

}  // namespace simgpu::cudart
