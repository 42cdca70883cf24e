// run: devices=1
// Allocation in stream order: freed memory is used again in the same stream, the pool keeps it or
// gives it back as its threshold says, and a pool of one's own counts what is taken from it.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <cstdint>

#include "common/buffer.h"

__global__ void fill(int* values, int count, int value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    values[i] = value;
  }
}

constexpr int kCount = 1 << 16;
constexpr size_t kBytes = kCount * sizeof(int);

uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
  uint64_t value = 0;
  CUDA_CHECK(cudaMemPoolGetAttribute(pool, which, &value));
  return value;
}

// Takes, uses and frees memory without any synchronisation but the last.
void churn(cudaStream_t stream, cudaMemPool_t pool) {
  int* host = nullptr;
  CUDA_CHECK(cudaMallocHost(&host, kBytes));
  for (int round = 0; round < 20; ++round) {
    int* values = nullptr;
    if (pool) {
      CUDA_CHECK(cudaMallocFromPoolAsync(&values, kBytes, pool, stream));
    } else {
      CUDA_CHECK(cudaMallocAsync(&values, kBytes, stream));
    }
    fill<<<kCount / 256, 256, 0, stream>>>(values, kCount, round);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpyAsync(host, values, kBytes, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaFreeAsync(values, stream));
  }
  CUDA_CHECK(cudaStreamSynchronize(stream));
  check_values("last round", host, kCount, [](size_t) { return 19; });
  CUDA_CHECK(cudaFreeHost(host));
}

void default_pool(cudaStream_t stream) {
  cudaMemPool_t pool;
  CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  uint64_t keep_all = UINT64_MAX;
  CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
  churn(stream, nullptr);
  const uint64_t reserved = attribute(pool, cudaMemPoolAttrReservedMemCurrent);
  CHECK(reserved >= kBytes, "the pool keeps %llu bytes", static_cast<unsigned long long>(reserved));
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0, "something is still in use");
  CUDA_CHECK(cudaMemPoolTrimTo(pool, 0));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0, "trimming leaves something");
}

void own_pool(cudaStream_t stream) {
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool;
  CUDA_CHECK(cudaMemPoolCreate(&pool, &props));
  churn(stream, pool);
  int* kept = nullptr;
  CUDA_CHECK(cudaMallocFromPoolAsync(&kept, kBytes, pool, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) >= kBytes, "nothing is in use");
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemHigh) >= kBytes, "nothing was in use");
  CUDA_CHECK(cudaFree(kept));  // also what the pool gave can be freed at once
  CUDA_CHECK(cudaMemPoolDestroy(pool));
}

int main() {
  simgpu::kernel(
      "fill", +[](simgpu::Grid, int* values, int count, int value) {
        for (int i = 0; i < count; ++i) {
          values[i] = value;
        }
      });
  int supported = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  CHECK(supported, "the device has no memory pools");
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  default_pool(stream);
  own_pool(stream);
  void* too_much = nullptr;
  CUDA_EXPECT(cudaErrorMemoryAllocation, cudaMallocAsync(&too_much, size_t{1} << 50, stream));
  CUDA_EXPECT(cudaErrorMemoryAllocation, cudaGetLastError());
  CUDA_CHECK(cudaStreamDestroy(stream));
  printf("stream_ordered_pool: 40 rounds of %zu bytes\n", kBytes);
  return 0;
}
