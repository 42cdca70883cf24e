// run: devices=1
// The launch configuration comes from the device's own advice; limits are those of its properties.
#include <cuda_runtime.h>
#include <simgpu.h>

#include "common/buffer.h"

__global__ void square(int* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    values[i] *= values[i];
  }
}
__global__ void use_shared(int* out, int count) {
  extern __shared__ int part[];
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    part[i] = i;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    out[i] = part[count - 1 - i];
  }
}

void by_occupancy(const cudaDeviceProp& props) {
  int min_grid = 0, block = 0, active = 0;
  CUDA_CHECK(cudaOccupancyMaxPotentialBlockSize(&min_grid, &block, square, 0, 0));
  CHECK(block >= 32 && block <= props.maxThreadsPerBlock && block % props.warpSize == 0,
        "advised block size is %d", block);
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&active, square, block, 0));
  CHECK(active * block <= props.maxThreadsPerMultiProcessor && active >= 1,
        "%d blocks of %d are active", active, block);
  CHECK(min_grid == active * props.multiProcessorCount, "advised grid is %d", min_grid);
  constexpr int kCount = 20'000;
  std::vector<int> values(kCount);
  for (int i = 0; i < kCount; ++i) {
    values[static_cast<size_t>(i)] = i;
  }
  const DeviceBuffer<int> device(values);
  square<<<(kCount + block - 1) / block, block>>>(device.data(), kCount);
  CUDA_CHECK(cudaGetLastError());
  check_values("squares", device.values(), [](size_t i) { return static_cast<int>(i * i); });
  printf("occupancy_launch: blocks of %d, %d per multiprocessor\n", block, active);
}

// More shared memory than a block has by itself must be asked for first.
void with_much_shared_memory(const cudaDeviceProp& props) {
  const int count = static_cast<int>(props.sharedMemPerBlockOptin / sizeof(int)) - 1024;
  const size_t bytes = static_cast<size_t>(count) * sizeof(int);
  CHECK(bytes > props.sharedMemPerBlock, "the device has no more to ask for");
  const DeviceBuffer<int> out(static_cast<size_t>(count));
  use_shared<<<1, 128, bytes>>>(out.data(), count);
  CUDA_EXPECT(cudaErrorInvalidValue, cudaGetLastError());
  CUDA_CHECK(cudaFuncSetAttribute(use_shared, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)));
  use_shared<<<1, 128, bytes>>>(out.data(), count);
  CUDA_CHECK(cudaGetLastError());
  check_values("reversed", out.values(), [&](size_t i) { return count - 1 - static_cast<int>(i); });
  cudaFuncAttributes attributes{};
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, use_shared));
  CHECK(attributes.maxDynamicSharedSizeBytes == static_cast<int>(bytes),
        "the function may use %d bytes", attributes.maxDynamicSharedSizeBytes);
}

int main() {
  simgpu::kernel(
      "square", +[](simgpu::Grid, int* values, int count) {
        for (int i = 0; i < count; ++i) {
          values[i] *= values[i];
        }
      });
  simgpu::kernel(
      "use_shared", +[](simgpu::Grid, int* out, int count) {
        for (int i = 0; i < count; ++i) {
          out[i] = count - 1 - i;
        }
      });
  cudaDeviceProp props{};
  CUDA_CHECK(cudaGetDeviceProperties(&props, 0));
  by_occupancy(props);
  with_much_shared_memory(props);
  return 0;
}
