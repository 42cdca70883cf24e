// run: devices=1
// Unified memory: the host writes, advice and prefetch, the device computes, the host reads without
// a copy.
#include <cuda_runtime.h>
#include <simgpu.h>

#include "common/buffer.h"

__global__ void saxpy(int count, float a, const float* x, float* y) {
  const int stride = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += stride) {
    y[i] = a * x[i] + y[i];
  }
}

void saxpy_on_host(simgpu::Grid, int count, float a, const float* x, float* y) {
  for (int i = 0; i < count; ++i) {
    y[i] = a * x[i] + y[i];
  }
}

__managed__ int g_launches = 1;

// Of memory that was advised to be mostly read, and of an address inside other memory.
void check_attributes(const float* advised, const float* inside, size_t bytes) {
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, inside));
  CHECK(attributes.type == cudaMemoryTypeManaged && attributes.hostPointer == inside &&
            attributes.devicePointer == inside,
        "managed memory is not seen as such: type %d", attributes.type);
  int read_mostly = 0;
  CUDA_CHECK(cudaMemRangeGetAttribute(&read_mostly, sizeof read_mostly,
                                      cudaMemRangeAttributeReadMostly, advised, bytes));
  CHECK(read_mostly == 1, "the advice was forgotten");
}

int main() {
  simgpu::kernel("saxpy", &saxpy_on_host);
  constexpr int kCount = 1 << 18;
  constexpr size_t kBytes = kCount * sizeof(float);
  float *x = nullptr, *y = nullptr;
  CUDA_CHECK(cudaMallocManaged(&x, kBytes));
  CUDA_CHECK(cudaMallocManaged(&y, kBytes, cudaMemAttachGlobal));
  for (int i = 0; i < kCount; ++i) {
    x[i] = static_cast<float>(i % 1000);
    y[i] = 1;
  }
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const cudaMemLocation on_device{cudaMemLocationTypeDevice, device};
  const cudaMemLocation on_host{cudaMemLocationTypeHost, 0};
  CUDA_CHECK(cudaMemAdvise(x, kBytes, cudaMemAdviseSetReadMostly, on_device));
  CUDA_CHECK(cudaMemAdvise(y, kBytes, cudaMemAdviseSetPreferredLocation, on_device));
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreate(&stream));
  CUDA_CHECK(cudaMemPrefetchAsync(x, kBytes, on_device, 0, stream));
  CUDA_CHECK(cudaMemPrefetchAsync(y, kBytes, on_device, 0, stream));
  for (int round = 0; round < 3; ++round) {
    saxpy<<<64, 256, 0, stream>>>(kCount, 2.0F, x, y);
    CUDA_CHECK(cudaGetLastError());
  }
  CUDA_CHECK(cudaMemPrefetchAsync(y, kBytes, on_host, 0, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  check_values("y", y, kCount, [](size_t i) { return 1 + 6 * static_cast<float>(i % 1000); });

  check_attributes(x, y + 100, kBytes);
  CHECK(g_launches == 1, "a managed variable starts as %d", g_launches);
  g_launches = 3;
  CUDA_CHECK(cudaStreamDestroy(stream));
  CUDA_CHECK(cudaFree(x));
  CUDA_CHECK(cudaFree(y));
  printf("managed_saxpy: %d values, %d launches\n", kCount, g_launches);
  return 0;
}
