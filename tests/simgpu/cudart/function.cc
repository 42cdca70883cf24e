// What kernels are like: attributes, occupancy, names, handles.
#include "cudart/api.h"
#include "cudart/registry.h"

namespace simgpu::cudart {
namespace {

struct AttributeField {
  CUfunction_attribute attribute;
  int cudaFuncAttributes::*field;
};
constexpr AttributeField kIntFields[] = {
    {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &cudaFuncAttributes::maxThreadsPerBlock},
    {CU_FUNC_ATTRIBUTE_NUM_REGS, &cudaFuncAttributes::numRegs},
    {CU_FUNC_ATTRIBUTE_PTX_VERSION, &cudaFuncAttributes::ptxVersion},
    {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &cudaFuncAttributes::binaryVersion},
    {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &cudaFuncAttributes::cacheModeCA},
    {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
     &cudaFuncAttributes::maxDynamicSharedSizeBytes},
    {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
     &cudaFuncAttributes::preferredShmemCarveout},
    {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &cudaFuncAttributes::clusterDimMustBeSet},
    {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &cudaFuncAttributes::requiredClusterWidth},
    {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, &cudaFuncAttributes::requiredClusterHeight},
    {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, &cudaFuncAttributes::requiredClusterDepth},
    {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
     &cudaFuncAttributes::nonPortableClusterSizeAllowed},
    {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
     &cudaFuncAttributes::clusterSchedulingPolicyPreference},
};

struct SizeField {
  CUfunction_attribute attribute;
  size_t cudaFuncAttributes::*field;
};
constexpr SizeField kSizeFields[] = {
    {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &cudaFuncAttributes::sharedSizeBytes},
    {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &cudaFuncAttributes::constSizeBytes},
    {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &cudaFuncAttributes::localSizeBytes},
};

CUlaunchConfig driver_config(const cudaLaunchConfig_t& config) {
  return {config.gridDim.x,
          config.gridDim.y,
          config.gridDim.z,
          config.blockDim.x,
          config.blockDim.y,
          config.blockDim.z,
          static_cast<unsigned>(config.dynamicSmemBytes),
          config.stream,
          reinterpret_cast<CUlaunchAttribute*>(config.attrs),
          config.numAttrs};
}

}  // namespace

SIMGPU_RT(context, cudaFuncGetAttributes, (cudaFuncAttributes * attributes, const void* host),
          (attributes, host)) {
  if (!attributes) {
    return cudaErrorInvalidValue;
  }
  CUfunction function = nullptr;
  SIMGPU_TRY(find_function(host, function));
  *attributes = {};
  for (const AttributeField& row : kIntFields) {
    SIMGPU_TRY(g_driver.cuFuncGetAttribute(&(attributes->*row.field), row.attribute, function));
  }
  for (const SizeField& row : kSizeFields) {
    int value = 0;
    SIMGPU_TRY(g_driver.cuFuncGetAttribute(&value, row.attribute, function));
    attributes->*row.field = static_cast<size_t>(value);
  }
  return cudaSuccess;
}

SIMGPU_RT(context, cudaFuncSetAttribute, (const void* host, cudaFuncAttribute attribute, int value),
          (host, attribute, value)) {
  CUfunction function = nullptr;
  SIMGPU_TRY(find_function(host, function));
  return g_driver.cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attribute), value);
}

SIMGPU_RT(context, cudaFuncSetCacheConfig, (const void* host, cudaFuncCache config),
          (host, config)) {
  CUfunction function = nullptr;
  SIMGPU_TRY(find_function(host, function));
  return g_driver.cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(config));
}

SIMGPU_RT(context, cudaFuncSetSharedMemConfig, (const void* host, cudaSharedMemConfig config),
          (host, config)) {
  CUfunction function = nullptr;
  SIMGPU_TRY(find_function(host, function));
  return g_driver.cuFuncSetSharedMemConfig(function, static_cast<CUsharedconfig>(config));
}

SIMGPU_RT(context, cudaFuncGetName, (const char** name, const void* host), (name, host)) {
  CUkernel kernel = nullptr;
  SIMGPU_TRY(find_kernel(host, kernel));
  return g_driver.cuKernelGetName(name, kernel);
}

SIMGPU_RT(context, cudaFuncGetParamInfo,
          (const void* host, size_t index, size_t* offset, size_t* bytes),
          (host, index, offset, bytes)) {
  CUkernel kernel = nullptr;
  SIMGPU_TRY(find_kernel(host, kernel));
  return g_driver.cuKernelGetParamInfo(kernel, index, offset, bytes);
}

SIMGPU_RT(context, cudaGetFuncBySymbol, (cudaFunction_t * function, const void* host),
          (function, host)) {
  if (!function) {
    return cudaErrorInvalidValue;
  }
  SIMGPU_TRY(find_function(host, *function));
  adopt_handle(*function);
  return cudaSuccess;
}

SIMGPU_RT(context, cudaGetKernel, (cudaKernel_t * kernel, const void* host), (kernel, host)) {
  if (!kernel) {
    return cudaErrorInvalidValue;
  }
  SIMGPU_TRY(find_kernel(host, *kernel));
  adopt_handle(*kernel);
  return cudaSuccess;
}

SIMGPU_RT(context, cudaKernelSetAttributeForDevice,
          (cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int device),
          (kernel, attribute, value, device)) {
  return g_driver.cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value, kernel,
                                       device);
}

SIMGPU_RT(context, cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
          (int* blocks, const void* host, int block_threads, size_t shared_bytes, unsigned flags),
          (blocks, host, block_threads, shared_bytes, flags)) {
  CUfunction function = nullptr;
  SIMGPU_TRY(find_function(host, function));
  return g_driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, function, block_threads, shared_bytes, flags);
}

SIMGPU_RT(context, cudaOccupancyMaxActiveBlocksPerMultiprocessor,
          (int* blocks, const void* host, int block_threads, size_t shared_bytes),
          (blocks, host, block_threads, shared_bytes)) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_body(
      blocks, host, block_threads, shared_bytes, CU_OCCUPANCY_DEFAULT);
}

SIMGPU_RT(context, cudaOccupancyAvailableDynamicSMemPerBlock,
          (size_t * bytes, const void* host, int blocks, int block_threads),
          (bytes, host, blocks, block_threads)) {
  CUfunction function = nullptr;
  SIMGPU_TRY(find_function(host, function));
  return g_driver.cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, block_threads);
}

SIMGPU_RT(context, cudaOccupancyMaxPotentialClusterSize,
          (int* size, const void* host, const cudaLaunchConfig_t* config), (size, host, config)) {
  if (!config) {
    return cudaErrorInvalidValue;
  }
  CUfunction function = nullptr;
  SIMGPU_TRY(find_function(host, function));
  const CUlaunchConfig launch = driver_config(*config);
  return g_driver.cuOccupancyMaxPotentialClusterSize(size, function, &launch);
}

SIMGPU_RT(context, cudaOccupancyMaxActiveClusters,
          (int* count, const void* host, const cudaLaunchConfig_t* config), (count, host, config)) {
  if (!config) {
    return cudaErrorInvalidValue;
  }
  CUfunction function = nullptr;
  SIMGPU_TRY(find_function(host, function));
  const CUlaunchConfig launch = driver_config(*config);
  return g_driver.cuOccupancyMaxActiveClusters(count, function, &launch);
}

}  // namespace simgpu::cudart
