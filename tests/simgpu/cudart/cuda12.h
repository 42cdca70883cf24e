// What programs compiled against the headers of CUDA 12 rely on and CUDA 13 lays out otherwise.
//
// simgpu is compiled against the headers of CUDA 13 alone, so these layouts stand here; compared
// with those of CUDA 12.4 by offsetof, field by field.
#pragma once
#include <driver_types.h>

#include <cstddef>

namespace simgpu::cuda12 {

// CUDA 13 dropped the clocks, computeMode and a few more, so that all that follows moved.
// NOLINTBEGIN(readability-identifier-naming,readability-isolate-declaration)
struct DeviceProperties {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned int luidDeviceNodeMask;
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
  size_t totalConstMem;
  int major, minor;
  size_t textureAlignment, texturePitchAlignment;
  int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory,
      computeMode, maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear, maxTexture2D[2],
      maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3],
      maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2], maxTexture2DLayered[3],
      maxTextureCubemapLayered[2], maxSurface1D, maxSurface2D[2], maxSurface3D[3],
      maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap,
      maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver,
      asyncEngineCount, unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize,
      persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported,
      globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID,
      hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio, pageableMemoryAccess,
      concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem,
      cooperativeLaunch, cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost,
      maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported,
      timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
  unsigned int gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned int memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers,
      reserved2[2], reserved1[1], reserved[60];
};
// NOLINTEND(readability-identifier-naming,readability-isolate-declaration)
static_assert(sizeof(DeviceProperties) == 1032);
static_assert(offsetof(DeviceProperties, clockRate) == 348);
static_assert(offsetof(DeviceProperties, multiProcessorCount) == 388);
static_assert(offsetof(DeviceProperties, surfaceAlignment) == 568);
static_assert(offsetof(DeviceProperties, sharedMemPerBlockOptin) == 696);
static_assert(offsetof(DeviceProperties, maxBlocksPerMultiProcessor) == 712);
static_assert(offsetof(DeviceProperties, unifiedFunctionPointers) == 776);

// CUDA 13 added eight reserved words.
struct PointerAttributes {
  cudaMemoryType type;
  int device;
  void* devicePointer;  // NOLINT(readability-identifier-naming)
  void* hostPointer;    // NOLINT(readability-identifier-naming)
};
static_assert(sizeof(PointerAttributes) == 24);

}  // namespace simgpu::cuda12
