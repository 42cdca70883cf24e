// run: devices=1
// The first program of everybody: three buffers, one kernel, every call checked, one mistake that
// is reported.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <vector>

#include "common/buffer.h"

__global__ void vector_add(const float* a, const float* b, float* c, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    c[i] = a[i] + b[i];
  }
}

int main() {
  simgpu::kernel(
      "vector_add", +[](simgpu::Grid, const float* a, const float* b, float* c, int count) {
        for (int i = 0; i < count; ++i) {
          c[i] = a[i] + b[i];
        }
      });
  constexpr int kCount = 50'000;
  constexpr int kThreads = 256;
  std::vector<float> a(kCount), b(kCount);
  for (int i = 0; i < kCount; ++i) {
    a[static_cast<size_t>(i)] = static_cast<float>(i);
    b[static_cast<size_t>(i)] = static_cast<float>(2 * i + 1);
  }
  const DeviceBuffer<float> device_a(a), device_b(b), device_c(a.size());

  // More threads than a block can have: nothing runs, the error is reported once.
  vector_add<<<1, 4096>>>(device_a.data(), device_b.data(), device_c.data(), kCount);
  CUDA_EXPECT(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
  CUDA_EXPECT(cudaErrorInvalidConfiguration, cudaGetLastError());
  CUDA_CHECK(cudaGetLastError());

  vector_add<<<(kCount + kThreads - 1) / kThreads, kThreads>>>(device_a.data(), device_b.data(),
                                                               device_c.data(), kCount);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  const std::vector<float> c = device_c.values();
  check_values("c", c, [](size_t i) { return 3 * static_cast<float>(i) + 1; });
  printf("vector_add: %d values, last %g\n", kCount, static_cast<double>(c.back()));
  return 0;
}
