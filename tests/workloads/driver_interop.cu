// run: devices=1
// The runtime and the driver in one program: a kernel that nvcc compiled is launched through the
// driver, memory and streams of one are used by the other, a driver function is asked for by name.
#include <cuda.h>
#include <cuda_runtime.h>
#include <simgpu.h>

#include "common/buffer.h"
#include "common/check_driver.h"

__global__ void scale(float* values, float factor, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    values[i] *= factor;
  }
}

constexpr int kCount = 3000;

void launch_through_driver(float* values, cudaStream_t stream) {
  cudaFunction_t function = nullptr;
  CUDA_CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(scale)));
  float factor = 3;
  int count = kCount;
  void* parameters[] = {&values, &factor, &count};
  CU_CHECK(cuLaunchKernel(function, (kCount + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters,
                          nullptr));
}

int main() {
  simgpu::kernel(
      "scale", +[](simgpu::Grid, float* values, float factor, int count) {
        for (int i = 0; i < count; ++i) {
          values[i] *= factor;
        }
      });
  CUDA_CHECK(cudaSetDevice(0));
  CUcontext current = nullptr, primary = nullptr;
  CU_CHECK(cuCtxGetCurrent(&current));
  CU_CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
  CHECK(current == primary, "the runtime does not use the primary context");

  CUdeviceptr memory = 0;
  CU_CHECK(cuMemAlloc(&memory, kCount * sizeof(float)));
  std::vector<float> host(kCount, 2);
  auto* const values = reinterpret_cast<float*>(memory);
  CUstream driver_stream = nullptr;
  CU_CHECK(cuStreamCreate(&driver_stream, CU_STREAM_NON_BLOCKING));
  const cudaStream_t stream = driver_stream;
  CUDA_CHECK(
      cudaMemcpyAsync(values, host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, stream));
  scale<<<(kCount + 127) / 128, 128, 0, stream>>>(values, 5.0F, kCount);
  CUDA_CHECK(cudaGetLastError());
  launch_through_driver(values, stream);
  CU_CHECK(cuMemcpyDtoHAsync(host.data(), memory, kCount * sizeof(float), driver_stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  check_values("scaled", host, [](size_t) { return 30; });

  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  CUDA_CHECK(
      cudaGetDriverEntryPointByVersion("cuMemFree", &entry, 12000, cudaEnableDefault, &found));
  CHECK(found == cudaDriverEntryPointSuccess && entry, "cuMemFree was not found: %d", found);
  CU_CHECK(reinterpret_cast<decltype(&cuMemFree)>(entry)(memory));
  CU_EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
  CUDA_CHECK(cudaStreamDestroy(stream));
  CU_CHECK(cuDevicePrimaryCtxRelease(0));
  printf("driver_interop: %d values\n", kCount);
  return 0;
}
