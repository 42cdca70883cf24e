// run: devices=4
// A thread for each device, all at work at the same time; the current device belongs to the thread.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <numeric>
#include <thread>

#include "common/buffer.h"

constexpr int kCount = 1 << 14;
constexpr int kBlock = 256;

__global__ void block_sums(const int* in, int* sums) {
  __shared__ int part[kBlock];
  part[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (unsigned width = kBlock / 2; width; width /= 2) {
    if (threadIdx.x < width) {
      part[threadIdx.x] += part[threadIdx.x + width];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = part[0];
  }
}

void block_sums_on_host(simgpu::Grid launch, const int* in, int* sums) {
  for (unsigned block = 0; block < launch.grid[0]; ++block) {
    sums[block] = std::accumulate(in + block * kBlock, in + (block + 1) * kBlock, 0);
  }
}

void work_on(int device, long* total) {
  CUDA_CHECK(cudaSetDevice(device));
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<int> values(kCount);
  std::iota(values.begin(), values.end(), device);
  const DeviceBuffer<int> in(values), sums(kCount / kBlock);
  for (int round = 0; round < 50; ++round) {
    block_sums<<<kCount / kBlock, kBlock, 0, stream>>>(in.data(), sums.data());
    CUDA_CHECK(cudaGetLastError());
  }
  CUDA_CHECK(cudaStreamSynchronize(stream));
  const std::vector<int> out = sums.values();
  *total = std::accumulate(out.begin(), out.end(), 0L);
  int current = -1;
  CUDA_CHECK(cudaGetDevice(&current));
  CHECK(current == device, "thread of device %d is on device %d", device, current);
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, in.data()));
  CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == device,
        "memory of device %d is said to be of %d", device, attributes.device);
  CUDA_CHECK(cudaStreamDestroy(stream));
}

int main() {
  simgpu::kernel("block_sums", &block_sums_on_host);
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  std::vector<long> totals(static_cast<size_t>(devices));
  std::vector<std::thread> threads;
  for (int device = 0; device < devices; ++device) {
    threads.emplace_back(work_on, device, &totals[static_cast<size_t>(device)]);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (int device = 0; device < devices; ++device) {
    const long expected = kCount * (kCount - 1L) / 2 + static_cast<long>(device) * kCount;
    const long total = totals[static_cast<size_t>(device)];
    CHECK(total == expected, "device %d: %ld, not %ld", device, total, expected);
    printf("device %d: %ld\n", device, total);
  }
  return 0;
}
