// cudaDeviceProp, filled from the driver's attributes, and what is chosen by it.
#include <cstring>

#include "cudart/api.h"
#include "cudart/convert.h"

namespace simgpu::cudart {
namespace {

// Sets one field after the other and keeps the first failure.
class Properties {
 public:
  Properties(DeviceProperties& prop, CUdevice device) : prop_(prop), device_(device) {}

  Status fill();

 private:
  template <class Field>
  void set(Field& field, CUdevice_attribute attribute) {
    int value = 0;
    if (const CUresult result = g_driver.cuDeviceGetAttribute(&value, attribute, device_);
        result != CUDA_SUCCESS && result_ == CUDA_SUCCESS) {
      result_ = result;
    }
    field = static_cast<Field>(value);
  }
  template <class Field, class... Attribute>
  void set_each(Field* fields, Attribute... attributes) {
    (set(*fields++, attributes), ...);
  }

  void identify();
  void fill_limits();
  void fill_textures();
  void fill_surfaces();
  void fill_memory();
  void fill_abilities();

  DeviceProperties& prop_;
  const CUdevice device_;
  CUresult result_ = CUDA_SUCCESS;
};

#define ATTRIBUTE(name) CU_DEVICE_ATTRIBUTE_##name

void Properties::identify() {
  CUuuid uuid = {};
  result_ = g_driver.cuDeviceGetName(prop_.name, sizeof prop_.name, device_);
  if (result_ == CUDA_SUCCESS) {
    result_ = g_driver.cuDeviceGetUuid(&uuid, device_);
  }
  if (result_ == CUDA_SUCCESS) {
    result_ = g_driver.cuDeviceTotalMem(&prop_.totalGlobalMem, device_);
  }
  memcpy(&prop_.uuid, &uuid, sizeof prop_.uuid);
  set(prop_.major, ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR));
  set(prop_.minor, ATTRIBUTE(COMPUTE_CAPABILITY_MINOR));
  set(prop_.pciBusID, ATTRIBUTE(PCI_BUS_ID));
  set(prop_.pciDeviceID, ATTRIBUTE(PCI_DEVICE_ID));
  set(prop_.pciDomainID, ATTRIBUTE(PCI_DOMAIN_ID));
  set(prop_.integrated, ATTRIBUTE(INTEGRATED));
  set(prop_.tccDriver, ATTRIBUTE(TCC_DRIVER));
  set(prop_.ECCEnabled, ATTRIBUTE(ECC_ENABLED));
  set(prop_.isMultiGpuBoard, ATTRIBUTE(MULTI_GPU_BOARD));
  set(prop_.multiGpuBoardGroupID, ATTRIBUTE(MULTI_GPU_BOARD_GROUP_ID));
#define SET(field, attribute) set(prop_.field, ATTRIBUTE(attribute));
  SIMGPU_RT_OWN_PROPERTIES(SET)
#undef SET
}

void Properties::fill_limits() {
  set(prop_.sharedMemPerBlock, ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK));
  set(prop_.sharedMemPerMultiprocessor, ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  set(prop_.sharedMemPerBlockOptin, ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  set(prop_.reservedSharedMemPerBlock, ATTRIBUTE(RESERVED_SHARED_MEMORY_PER_BLOCK));
  set(prop_.regsPerBlock, ATTRIBUTE(MAX_REGISTERS_PER_BLOCK));
  set(prop_.regsPerMultiprocessor, ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR));
  set(prop_.warpSize, ATTRIBUTE(WARP_SIZE));
  set(prop_.maxThreadsPerBlock, ATTRIBUTE(MAX_THREADS_PER_BLOCK));
  set(prop_.maxThreadsPerMultiProcessor, ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR));
  set(prop_.maxBlocksPerMultiProcessor, ATTRIBUTE(MAX_BLOCKS_PER_MULTIPROCESSOR));
  set(prop_.multiProcessorCount, ATTRIBUTE(MULTIPROCESSOR_COUNT));
  set(prop_.asyncEngineCount, ATTRIBUTE(ASYNC_ENGINE_COUNT));
  set_each(prop_.maxThreadsDim, ATTRIBUTE(MAX_BLOCK_DIM_X), ATTRIBUTE(MAX_BLOCK_DIM_Y),
           ATTRIBUTE(MAX_BLOCK_DIM_Z));
  set_each(prop_.maxGridSize, ATTRIBUTE(MAX_GRID_DIM_X), ATTRIBUTE(MAX_GRID_DIM_Y),
           ATTRIBUTE(MAX_GRID_DIM_Z));
}

void Properties::fill_textures() {
  set(prop_.maxTexture1D, ATTRIBUTE(MAXIMUM_TEXTURE1D_WIDTH));
  set(prop_.maxTexture1DMipmap, ATTRIBUTE(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH));
  set_each(prop_.maxTexture2D, ATTRIBUTE(MAXIMUM_TEXTURE2D_WIDTH),
           ATTRIBUTE(MAXIMUM_TEXTURE2D_HEIGHT));
  set_each(prop_.maxTexture2DMipmap, ATTRIBUTE(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH),
           ATTRIBUTE(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT));
  set_each(prop_.maxTexture2DLinear, ATTRIBUTE(MAXIMUM_TEXTURE2D_LINEAR_WIDTH),
           ATTRIBUTE(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT), ATTRIBUTE(MAXIMUM_TEXTURE2D_LINEAR_PITCH));
  set_each(prop_.maxTexture2DGather, ATTRIBUTE(MAXIMUM_TEXTURE2D_GATHER_WIDTH),
           ATTRIBUTE(MAXIMUM_TEXTURE2D_GATHER_HEIGHT));
  set_each(prop_.maxTexture3D, ATTRIBUTE(MAXIMUM_TEXTURE3D_WIDTH),
           ATTRIBUTE(MAXIMUM_TEXTURE3D_HEIGHT), ATTRIBUTE(MAXIMUM_TEXTURE3D_DEPTH));
  set_each(prop_.maxTexture3DAlt, ATTRIBUTE(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE),
           ATTRIBUTE(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE),
           ATTRIBUTE(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE));
  set(prop_.maxTextureCubemap, ATTRIBUTE(MAXIMUM_TEXTURECUBEMAP_WIDTH));
  set_each(prop_.maxTexture1DLayered, ATTRIBUTE(MAXIMUM_TEXTURE1D_LAYERED_WIDTH),
           ATTRIBUTE(MAXIMUM_TEXTURE1D_LAYERED_LAYERS));
  set_each(prop_.maxTexture2DLayered, ATTRIBUTE(MAXIMUM_TEXTURE2D_LAYERED_WIDTH),
           ATTRIBUTE(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT),
           ATTRIBUTE(MAXIMUM_TEXTURE2D_LAYERED_LAYERS));
  set_each(prop_.maxTextureCubemapLayered, ATTRIBUTE(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH),
           ATTRIBUTE(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS));
}

void Properties::fill_surfaces() {
  set(prop_.maxSurface1D, ATTRIBUTE(MAXIMUM_SURFACE1D_WIDTH));
  set_each(prop_.maxSurface2D, ATTRIBUTE(MAXIMUM_SURFACE2D_WIDTH),
           ATTRIBUTE(MAXIMUM_SURFACE2D_HEIGHT));
  set_each(prop_.maxSurface3D, ATTRIBUTE(MAXIMUM_SURFACE3D_WIDTH),
           ATTRIBUTE(MAXIMUM_SURFACE3D_HEIGHT), ATTRIBUTE(MAXIMUM_SURFACE3D_DEPTH));
  set_each(prop_.maxSurface1DLayered, ATTRIBUTE(MAXIMUM_SURFACE1D_LAYERED_WIDTH),
           ATTRIBUTE(MAXIMUM_SURFACE1D_LAYERED_LAYERS));
  set_each(prop_.maxSurface2DLayered, ATTRIBUTE(MAXIMUM_SURFACE2D_LAYERED_WIDTH),
           ATTRIBUTE(MAXIMUM_SURFACE2D_LAYERED_HEIGHT),
           ATTRIBUTE(MAXIMUM_SURFACE2D_LAYERED_LAYERS));
  set(prop_.maxSurfaceCubemap, ATTRIBUTE(MAXIMUM_SURFACECUBEMAP_WIDTH));
  set_each(prop_.maxSurfaceCubemapLayered, ATTRIBUTE(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH),
           ATTRIBUTE(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS));
}

void Properties::fill_memory() {
  set(prop_.memPitch, ATTRIBUTE(MAX_PITCH));
  set(prop_.totalConstMem, ATTRIBUTE(TOTAL_CONSTANT_MEMORY));
  set(prop_.textureAlignment, ATTRIBUTE(TEXTURE_ALIGNMENT));
  set(prop_.texturePitchAlignment, ATTRIBUTE(TEXTURE_PITCH_ALIGNMENT));
  set(prop_.surfaceAlignment, ATTRIBUTE(SURFACE_ALIGNMENT));
  set(prop_.memoryBusWidth, ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH));
  set(prop_.l2CacheSize, ATTRIBUTE(L2_CACHE_SIZE));
  set(prop_.persistingL2CacheMaxSize, ATTRIBUTE(MAX_PERSISTING_L2_CACHE_SIZE));
  set(prop_.accessPolicyMaxWindowSize, ATTRIBUTE(MAX_ACCESS_POLICY_WINDOW_SIZE));
  set(prop_.globalL1CacheSupported, ATTRIBUTE(GLOBAL_L1_CACHE_SUPPORTED));
  set(prop_.localL1CacheSupported, ATTRIBUTE(LOCAL_L1_CACHE_SUPPORTED));
  set(prop_.unifiedAddressing, ATTRIBUTE(UNIFIED_ADDRESSING));
  set(prop_.managedMemory, ATTRIBUTE(MANAGED_MEMORY));
  set(prop_.canMapHostMemory, ATTRIBUTE(CAN_MAP_HOST_MEMORY));
  set(prop_.pageableMemoryAccess, ATTRIBUTE(PAGEABLE_MEMORY_ACCESS));
  set(prop_.concurrentManagedAccess, ATTRIBUTE(CONCURRENT_MANAGED_ACCESS));
  set(prop_.pageableMemoryAccessUsesHostPageTables,
      ATTRIBUTE(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES));
  set(prop_.directManagedMemAccessFromHost, ATTRIBUTE(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST));
  set(prop_.canUseHostPointerForRegisteredMem, ATTRIBUTE(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM));
  set(prop_.hostRegisterSupported, ATTRIBUTE(HOST_REGISTER_SUPPORTED));
  set(prop_.hostRegisterReadOnlySupported, ATTRIBUTE(READ_ONLY_HOST_REGISTER_SUPPORTED));
  set(prop_.memoryPoolsSupported, ATTRIBUTE(MEMORY_POOLS_SUPPORTED));
  set(prop_.memoryPoolSupportedHandleTypes, ATTRIBUTE(MEMPOOL_SUPPORTED_HANDLE_TYPES));
}

void Properties::fill_abilities() {
  set(prop_.concurrentKernels, ATTRIBUTE(CONCURRENT_KERNELS));
  set(prop_.streamPrioritiesSupported, ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED));
  set(prop_.hostNativeAtomicSupported, ATTRIBUTE(HOST_NATIVE_ATOMIC_SUPPORTED));
  set(prop_.computePreemptionSupported, ATTRIBUTE(COMPUTE_PREEMPTION_SUPPORTED));
  set(prop_.cooperativeLaunch, ATTRIBUTE(COOPERATIVE_LAUNCH));
  set(prop_.sparseCudaArraySupported, ATTRIBUTE(SPARSE_CUDA_ARRAY_SUPPORTED));
  set(prop_.timelineSemaphoreInteropSupported, ATTRIBUTE(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED));
  set(prop_.gpuDirectRDMASupported, ATTRIBUTE(GPU_DIRECT_RDMA_SUPPORTED));
  set(prop_.gpuDirectRDMAFlushWritesOptions, ATTRIBUTE(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS));
  set(prop_.gpuDirectRDMAWritesOrdering, ATTRIBUTE(GPU_DIRECT_RDMA_WRITES_ORDERING));
  set(prop_.deferredMappingCudaArraySupported, ATTRIBUTE(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED));
  set(prop_.ipcEventSupported, ATTRIBUTE(IPC_EVENT_SUPPORTED));
  set(prop_.clusterLaunch, ATTRIBUTE(CLUSTER_LAUNCH));
  set(prop_.unifiedFunctionPointers, ATTRIBUTE(UNIFIED_FUNCTION_POINTERS));
}

#undef ATTRIBUTE

Status Properties::fill() {
  prop_ = {};
  identify();
  fill_limits();
  fill_textures();
  fill_surfaces();
  fill_memory();
  fill_abilities();
  return result_;
}

// How well a device meets a wish: the number of wished fields that it satisfies.
int score(const DeviceProperties& device, const DeviceProperties& wish) {
  const bool newer =
      device.major > wish.major || (device.major == wish.major && device.minor >= wish.minor);
  return (wish.major == 0 || newer) +
         (wish.totalGlobalMem == 0 || device.totalGlobalMem >= wish.totalGlobalMem) +
         (wish.multiProcessorCount == 0 || device.multiProcessorCount >= wish.multiProcessorCount) +
         (wish.name[0] == '\0' || strcmp(device.name, wish.name) == 0);
}

}  // namespace

SIMGPU_RT(driver, cudaGetDeviceProperties, (cudaDeviceProp * prop, int device), (prop, device)) {
  if (!prop) {
    return cudaErrorInvalidValue;
  }
  int count = 0;
  SIMGPU_TRY(g_driver.cuDeviceGetCount(&count));
  return device >= 0 && device < count
             ? Properties(*reinterpret_cast<DeviceProperties*>(prop), device).fill()
             : cudaErrorInvalidDevice;
}

SIMGPU_RT(driver, cudaChooseDevice, (int* device, const cudaDeviceProp* declared),
          (device, declared)) {
  if (!device || !declared) {
    return cudaErrorInvalidValue;
  }
  const auto* const wish = reinterpret_cast<const DeviceProperties*>(declared);
  int count = 0;
  SIMGPU_TRY(g_driver.cuDeviceGetCount(&count));
  int best = -1;
  for (int i = 0; i < count; ++i) {
    DeviceProperties prop;
    SIMGPU_TRY(Properties(prop, i).fill());
    if (const int points = score(prop, *wish); points > best) {
      best = points;
      *device = i;
    }
  }
  return best < 0 ? cudaErrorNoDevice : cudaSuccess;
}

SIMGPU_RT(driver, cudaDeviceGetTexture1DLinearMaxWidth,
          (size_t * width, const cudaChannelFormatDesc* format, int device),
          (width, format, device)) {
  ArrayFormat array;
  SIMGPU_TRY(array_format(format, array));
  return g_driver.cuDeviceGetTexture1DLinearMaxWidth(width, array.format, array.channels, device);
}

}  // namespace simgpu::cudart
