// A kernel that does nothing, and its handle for cudaLaunchKernel.
__global__ void empty_kernel() {}

const void* empty_kernel_symbol() {
  return reinterpret_cast<const void*>(&empty_kernel);
}
