// run: ranks=1 devices=1
// The smallest program that nvcc compiles: one kernel, one copy back.  On simgpu the kernel has the
// body given here.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <cstdio>

__global__ void add_one(int* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    values[i] += 1;
  }
}

void add_one_on_host(simgpu::Grid, int* values, int count) {
  for (int i = 0; i < count; ++i) {
    values[i] += 1;
  }
}

int main() {
  constexpr int kCount = 1000;
  simgpu::kernel("add_one", &add_one_on_host);
  int host[kCount] = {};
  int* device = nullptr;
  if (cudaMalloc(&device, sizeof host) != cudaSuccess ||
      cudaMemset(device, 0, sizeof host) != cudaSuccess) {
    printf("no device memory: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  add_one<<<(kCount + 255) / 256, 256>>>(device, kCount);
  if (cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) {
    printf("launch or copy failed: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  cudaFree(device);
  for (int i = 0; i < kCount; ++i) {
    if (host[i] != 1) {
      printf("value %d is %d\n", i, host[i]);
      return 1;
    }
  }
  return 0;
}
