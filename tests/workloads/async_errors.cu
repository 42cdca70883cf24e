// run: devices=1
// Errors that belong to no call: a kernel that writes where it must not is reported by later calls,
// the context is lost, every call says so.  Errors of a call itself are gone once they were asked
// for.
#include <cuda_runtime.h>
#include <simgpu.h>

#include "common/buffer.h"

__global__ void write_one(int* value) {
  *value = 1;
}
__global__ void write_wild(int* value) {
  *value = 1;
}

void check_call_errors() {
  void* memory = nullptr;
  CUDA_EXPECT(cudaErrorMemoryAllocation, cudaMalloc(&memory, size_t{1} << 60));
  CUDA_EXPECT(cudaErrorMemoryAllocation, cudaPeekAtLastError());
  CUDA_EXPECT(cudaErrorMemoryAllocation, cudaGetLastError());
  CUDA_CHECK(cudaGetLastError());
  CUDA_EXPECT(cudaErrorInvalidDevice, cudaSetDevice(10'000));
  int from = 1, to = 2;
  CUDA_EXPECT(cudaErrorInvalidMemcpyDirection,
              cudaMemcpy(&to, &from, sizeof to, static_cast<cudaMemcpyKind>(7)));
  cudaGetLastError();
  // A good call does not take the error of a bad one away.
  CUDA_EXPECT(cudaErrorInvalidDevice, cudaSetDevice(10'000));
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_EXPECT(cudaErrorInvalidDevice, cudaGetLastError());
}

void check_lost_context() {
  int* value = nullptr;
  CUDA_CHECK(cudaMalloc(&value, sizeof *value));
  write_one<<<1, 1>>>(value);
  CUDA_CHECK(cudaDeviceSynchronize());
  write_wild<<<1, 1>>>(reinterpret_cast<int*>(0x10));
  CUDA_CHECK(cudaGetLastError());  // the launch itself was good
  CUDA_EXPECT(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  // Sticky: asking does not clear it, nothing works any more.
  CUDA_EXPECT(cudaErrorIllegalAddress, cudaGetLastError());
  CUDA_EXPECT(cudaErrorIllegalAddress, cudaGetLastError());
  void* more = nullptr;
  CUDA_EXPECT(cudaErrorIllegalAddress, cudaMalloc(&more, 4));
  CUDA_EXPECT(cudaErrorIllegalAddress, cudaFree(value));
  int host = 0;
  CUDA_EXPECT(cudaErrorIllegalAddress,
              cudaMemcpy(&host, value, sizeof host, cudaMemcpyDeviceToHost));
}

int main() {
  simgpu::kernel(
      "write_one", +[](simgpu::Grid, int* value) { *value = 1; });
  // What the device's memory protection would say.
  const size_t bytes = sizeof(int*);
  simgpu_register(
      "write_wild",
      [](void* const*, const simgpuLaunch*, void*) {
        return static_cast<int>(cudaErrorIllegalAddress);
      },
      nullptr, 1, &bytes);
  check_call_errors();
  check_lost_context();
  printf("async_errors: the context was lost, as it must be\n");
  return 0;
}
