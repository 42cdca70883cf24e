// A runtime whose functions do nothing: what a call costs with it, less what it costs without the
// preload, is what the tracer adds.
#include <cuda_runtime_api.h>

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the vendor calls it devPtr

extern "C" {
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** address, size_t) {
  *address = reinterpret_cast<void*>(0x7f0000000000);
  return cudaSuccess;
}
cudaError_t cudaFree(void*) {
  return cudaSuccess;
}
cudaError_t cudaMemset(void*, int, size_t) {
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind) {
  return cudaSuccess;
}
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
