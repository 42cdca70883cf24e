// run: devices=1
// Streams with priorities: the range is asked for, what is beyond it is cut to it, results do not
// depend on it.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <algorithm>

#include "common/buffer.h"

__global__ void copy_values(const int* in, int* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    out[i] = in[i];
  }
}

constexpr int kCount = 1 << 15;

int priority_of(cudaStream_t stream) {
  int priority = 1000;
  CUDA_CHECK(cudaStreamGetPriority(stream, &priority));
  return priority;
}

int main() {
  simgpu::kernel(
      "copy_values",
      +[](simgpu::Grid, const int* in, int* out, int count) { std::copy_n(in, count, out); });
  int least = 0, greatest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(greatest <= least, "priorities from %d to %d", least, greatest);

  cudaStream_t low, high, cut;
  CUDA_CHECK(cudaStreamCreateWithPriority(&low, cudaStreamNonBlocking, least));
  CUDA_CHECK(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
  CUDA_CHECK(cudaStreamCreateWithPriority(&cut, cudaStreamDefault, greatest - 100));
  CHECK(priority_of(low) == least && priority_of(high) == greatest, "priorities %d and %d",
        priority_of(low), priority_of(high));
  CHECK(priority_of(cut) == greatest, "a priority beyond the range became %d", priority_of(cut));
  CHECK(priority_of(nullptr) == 0, "the default stream has priority %d", priority_of(nullptr));
  unsigned flags = 0;
  CUDA_CHECK(cudaStreamGetFlags(high, &flags));
  CHECK(flags == cudaStreamNonBlocking, "flags are %u", flags);

  std::vector<int> values(kCount);
  for (int i = 0; i < kCount; ++i) {
    values[static_cast<size_t>(i)] = i * 7;
  }
  const DeviceBuffer<int> in(values), slow(kCount), fast(kCount);
  for (int round = 0; round < 20; ++round) {
    copy_values<<<kCount / 256, 256, 0, low>>>(in.data(), slow.data(), kCount);
    copy_values<<<kCount / 256, 256, 0, high>>>(in.data(), fast.data(), kCount);
  }
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  check_values("low", slow.values(), [](size_t i) { return 7 * static_cast<int>(i); });
  check_values("high", fast.values(), [](size_t i) { return 7 * static_cast<int>(i); });
  for (cudaStream_t stream : {low, high, cut}) {
    CUDA_CHECK(cudaStreamDestroy(stream));
  }
  printf("stream_priorities: %d (least) to %d (greatest)\n", least, greatest);
  return 0;
}
