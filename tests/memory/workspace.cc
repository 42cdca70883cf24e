// Allocates as cuBLAS and PyTorch do: built as libraries of such names.
#include <cuda_runtime_api.h>

#include <cstdlib>

#ifdef OF_CUBLAS
extern "C" void cublas_like_workspace(size_t bytes) {
  void* memory = nullptr;
  (void)cudaMalloc(&memory, bytes);
}
extern "C" void cublas_like_staging(size_t bytes) {
  void* memory = nullptr;
  (void)cudaMallocHost(&memory, bytes);
}
extern "C" void cublas_like_clear(void* memory, size_t bytes) {
  if (cudaMemset(memory, 0, bytes) != cudaSuccess) {  // a tail call would leave no frame
    abort();
  }
}
extern "C" cudaError_t cublas_like_free(void* memory) {
  const cudaError_t result = cudaFree(memory);
  (void)cudaGetLastError();
  return result;
}
extern "C" void cublas_like_event() {
  cudaEvent_t event = nullptr;
  if (cudaEventCreate(&event) != cudaSuccess) {
    abort();
  }
}
#else
namespace at::cuda {
// As PyTorch's, which allocates a workspace when a thread asks for a handle on another stream.
// NOLINTNEXTLINE(readability-identifier-naming)
void* getCurrentCUDABlasHandle(void* (*allocate)()) {
  void* const memory = allocate();
  if (memory == nullptr) {  // a tail call would leave no frame
    abort();
  }
  return memory;
}
}  // namespace at::cuda

extern "C" void* pinned_like_pytorch(size_t bytes) {
  void* memory = nullptr;
  return cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) == cudaSuccess ? memory : nullptr;
}
#endif
