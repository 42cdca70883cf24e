// Allocates as cuBLAS and PyTorch do: built as libraries of such names.
#include <cuda_runtime_api.h>

#ifdef OF_CUBLAS
extern "C" void cublas_like_workspace(size_t bytes) {
  void* memory = nullptr;
  (void)cudaMalloc(&memory, bytes);
}
#else
extern "C" void* pinned_like_pytorch(size_t bytes) {
  void* memory = nullptr;
  return cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) == cudaSuccess ? memory : nullptr;
}
#endif
