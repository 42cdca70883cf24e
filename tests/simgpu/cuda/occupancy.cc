#include <cuda.h>

#include <algorithm>

#include "common/entry.h"
#include "cuda/device.h"
#include "cuda/launch.h"

using namespace simgpu;

namespace simgpu {

int blocks_per_multiprocessor(Kernel& kernel, int block_threads, size_t dynamic_shared_bytes) {
  if (block_threads <= 0 || block_threads > kMaxBlockThreads) {
    return 0;
  }
  int static_shared = 0;
  kernel_attribute(kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &static_shared);
  const int rounded_threads = (block_threads + kWarpThreads - 1) / kWarpThreads * kWarpThreads;
  const size_t shared_bytes = static_shared + dynamic_shared_bytes + kReservedSharedPerBlock;
  const int by_threads = kMaxThreadsPerMultiprocessor / rounded_threads;
  const int by_registers = kRegistersPerMultiprocessor / (kRegistersPerThread * rounded_threads);
  const int by_shared = static_cast<int>(kSharedPerMultiprocessor / shared_bytes);
  return std::min({kMaxBlocksPerMultiprocessor, by_threads, by_registers, by_shared});
}

namespace {

int threads_of(const CUlaunchConfig& config) {
  return static_cast<int>(config.blockDimX * config.blockDimY * config.blockDimZ);
}

int cluster_size_of(const CUlaunchConfig& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& cluster = config.attrs[i].value.clusterDim;
      return static_cast<int>(cluster.x * cluster.y * cluster.z);
    }
  }
  return 1;
}

}  // namespace
}  // namespace simgpu

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                              int block_threads,
                                                              size_t dynamic_shared_bytes,
                                                              unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  if (!blocks || block_threads <= 0 || (flags & ~CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!function || !kernel_of(function)->alive) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *blocks = blocks_per_multiprocessor(*kernel_of(function), block_threads, dynamic_shared_bytes);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                     int block_threads,
                                                     size_t dynamic_shared_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_threads,
                                                              dynamic_shared_bytes, 0);
}

// The largest block that still fills a multiprocessor.
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of_block,
                                                   size_t dynamic_shared_bytes, int limit,
                                                   unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  if (!grid || !block || (flags & ~CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!function || !kernel_of(function)->alive) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const int top = limit > 0 ? std::min(limit, kMaxBlockThreads) : kMaxBlockThreads;
  int best_threads = 0;
  *grid = *block = 0;
  for (int threads = top; threads > 0;
       threads -= threads % kWarpThreads ? threads % kWarpThreads : kWarpThreads) {
    const size_t shared = shared_of_block ? shared_of_block(threads) : dynamic_shared_bytes;
    const int blocks = blocks_per_multiprocessor(*kernel_of(function), threads, shared);
    if (blocks * threads > best_threads) {
      best_threads = blocks * threads;
      *block = threads;
      *grid = blocks * kMultiprocessors;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                          CUoccupancyB2DSize shared_of_block,
                                          size_t dynamic_shared_bytes, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of_block,
                                                   dynamic_shared_bytes, limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function, int blocks,
                                                 int block_threads) {
  SIMGPU_CONTEXT_ENTER();
  if (!bytes || blocks <= 0 || block_threads <= 0 || block_threads > kMaxBlockThreads) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!function || !kernel_of(function)->alive) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  int static_shared = 0;
  kernel_attribute(*kernel_of(function), CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &static_shared);
  const int share = std::min(kSharedPerMultiprocessor / blocks, kSharedPerBlockOptin);
  *bytes = std::max(0, share - kReservedSharedPerBlock - static_shared);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function,
                                            const CUlaunchConfig* config) {
  SIMGPU_CONTEXT_ENTER();
  if (!size || !config) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!function || !kernel_of(function)->alive) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  int any_size = 0;
  kernel_attribute(*kernel_of(function), CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                   &any_size);
  *size = any_size ? 16 : 8;  // 8 is the portable limit of this compute capability
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                      const CUlaunchConfig* config) {
  SIMGPU_CONTEXT_ENTER();
  if (!clusters || !config) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!function || !kernel_of(function)->alive) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const int blocks =
      blocks_per_multiprocessor(*kernel_of(function), threads_of(*config), config->sharedMemBytes);
  *clusters = blocks * kMultiprocessors / std::max(1, cluster_size_of(*config));
  return CUDA_SUCCESS;
}
