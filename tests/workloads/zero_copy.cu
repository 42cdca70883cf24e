// run: devices=1
// Kernels that work on the host's own memory: allocated pinned and mapped, and ordinary memory that
// was registered.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <cstdlib>

#include "common/buffer.h"

__global__ void vector_add(const int* a, const int* b, int* c, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    c[i] = a[i] + b[i];
  }
}

constexpr int kCount = 1 << 14;
constexpr size_t kBytes = kCount * sizeof(int);

int* on_device(int* host) {
  int* device = nullptr;
  CUDA_CHECK(cudaHostGetDevicePointer(&device, host, 0));
  return device;
}

void check_type(const void* pointer, cudaMemoryType expected) {
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, pointer));
  CHECK(attributes.type == expected, "memory has type %d, not %d", attributes.type, expected);
}

void register_once(int* memory) {
  check_type(memory, cudaMemoryTypeUnregistered);
  CUDA_CHECK(cudaHostRegister(memory, kBytes, cudaHostRegisterMapped));
  check_type(memory, cudaMemoryTypeHost);
  CUDA_EXPECT(cudaErrorHostMemoryAlreadyRegistered,
              cudaHostRegister(memory, kBytes, cudaHostRegisterMapped));
  cudaGetLastError();
}

void unregister(int* memory) {
  CUDA_CHECK(cudaHostUnregister(memory));
  check_type(memory, cudaMemoryTypeUnregistered);
  CUDA_EXPECT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(memory));
  cudaGetLastError();
}

int main() {
  simgpu::kernel(
      "vector_add", +[](simgpu::Grid, const int* a, const int* b, int* c, int count) {
        for (int i = 0; i < count; ++i) {
          c[i] = a[i] + b[i];
        }
      });
  int can_map = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&can_map, cudaDevAttrCanMapHostMemory, 0));
  CHECK(can_map, "the device cannot map memory of the host");

  int *a = nullptr, *b = nullptr;
  CUDA_CHECK(cudaHostAlloc(&a, kBytes, cudaHostAllocMapped | cudaHostAllocPortable));
  CUDA_CHECK(cudaHostAlloc(&b, kBytes, cudaHostAllocMapped | cudaHostAllocWriteCombined));
  int* const c = static_cast<int*>(aligned_alloc(4096, kBytes));
  register_once(c);
  check_type(a, cudaMemoryTypeHost);
  unsigned flags = 0;
  CUDA_CHECK(cudaHostGetFlags(&flags, a));
  CHECK(flags & cudaHostAllocMapped, "flags are %u", flags);

  for (int i = 0; i < kCount; ++i) {
    a[i] = i;
    b[i] = 2 * i;
    c[i] = -1;
  }
  vector_add<<<kCount / 256, 256>>>(on_device(a), on_device(b), on_device(c), kCount);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  check_values("c", c, kCount, [](size_t i) { return 3 * static_cast<int>(i); });

  unregister(c);
  free(c);
  CUDA_CHECK(cudaFreeHost(a));
  CUDA_CHECK(cudaFreeHost(b));
  printf("zero_copy: %d values\n", kCount);
  return 0;
}
