#include "blas/launch.h"

#include <simgpu.h>

// What nvcc calls for a program with kernels; no public header declares them.
extern "C" {
void** __cudaRegisterFatBinary(void* fat_binary);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* host_function, char* device_function,
                            const char* device_name, int thread_limit, uint3* thread, uint3* block,
                            dim3* block_size, dim3* grid_size, int* warp_size);
}

namespace simgpu::blas {
namespace {

char g_gemm;  // the host function by which the runtime knows the kernel: never called

// A fat binary with nothing in it: the driver takes it to hold whatever it is asked for.
struct FatBinary {
  struct {
    uint32_t magic = 0xba55ed50;
    uint16_t version = 1, header_bytes = 16;
    uint64_t bytes = 0;
  } header;
  struct {
    int magic = 0x466243b1, version = 1;
    const void* data = nullptr;
    void* file_or_null = nullptr;
  } wrapper;
};

bool register_kernel() {
  static FatBinary& binary = *new FatBinary;
  binary.wrapper.data = &binary.header;
  static char name[] = "simgpu_gemm";
  void** module = __cudaRegisterFatBinary(&binary.wrapper);
  __cudaRegisterFunction(module, &g_gemm, name, name, -1, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  __cudaRegisterFatBinaryEnd(module);
  const size_t parameter_bytes[] = {sizeof(Product)};
  const simgpuKernelBody body = [](void* const* arguments, const simgpuLaunch*, void*) {
    multiply(*static_cast<const Product*>(arguments[0]));
    return 0;
  };
  return simgpu_register(name, body, nullptr, 1, parameter_bytes) != 0;
}

}  // namespace

cudaError_t launch(const Product& product, cudaStream_t stream) {
  static const bool registered = register_kernel();
  if (!registered) {
    return cudaErrorNotSupported;
  }
  void* arguments[] = {const_cast<Product*>(&product)};
  return cudaLaunchKernel(&g_gemm, dim3(1), dim3(128), arguments, 0, stream);
}

}  // namespace simgpu::blas
