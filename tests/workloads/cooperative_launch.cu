// run: devices=1
// A grid that synchronises as a whole: as many blocks as fit at once, launched cooperatively; one
// more is refused.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <simgpu.h>

#include "common/buffer.h"

constexpr int kThreads = 256;
constexpr int kSteps = 4;

// Each step adds the left neighbour's value of the step before: wrong without the grid's barrier.
__global__ void add_neighbours(int* now, int* next, int count) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  for (int step = 0; step < kSteps; ++step) {
    for (int i = static_cast<int>(grid.thread_rank()); i < count;
         i += static_cast<int>(grid.size())) {
      next[i] = now[i] + now[(i + count - 1) % count];
    }
    grid.sync();
    int* const other = now;
    now = next;
    next = other;
  }
}

void add_neighbours_on_host(simgpu::Grid, int* now, int* next, int count) {
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < count; ++i) {
      next[i] = now[i] + now[(i + count - 1) % count];
    }
    std::swap(now, next);
  }
}

// As many as the device holds at once.
unsigned resident_blocks() {
  cudaDeviceProp props{};
  CUDA_CHECK(cudaGetDeviceProperties(&props, 0));
  int cooperative = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0));
  CHECK(cooperative, "the device cannot launch cooperatively");
  int per_multiprocessor = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, add_neighbours,
                                                           kThreads, 0));
  return static_cast<unsigned>(per_multiprocessor * props.multiProcessorCount);
}

int main() {
  simgpu::kernel("add_neighbours", &add_neighbours_on_host);
  const unsigned blocks = resident_blocks();
  int count = 10'000;
  std::vector<int> start(static_cast<size_t>(count), 0);
  start[0] = 1;
  const DeviceBuffer<int> now(start), next(start.size());
  int* now_data = now.data();
  int* next_data = next.data();
  void* arguments[] = {&now_data, &next_data, &count};
  const void* kernel = reinterpret_cast<const void*>(add_neighbours);
  CUDA_EXPECT(
      cudaErrorCooperativeLaunchTooLarge,
      cudaLaunchCooperativeKernel(kernel, dim3(blocks + 1), dim3(kThreads), arguments, 0, nullptr));
  CUDA_EXPECT(cudaErrorCooperativeLaunchTooLarge, cudaGetLastError());
  CUDA_CHECK(
      cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(kThreads), arguments, 0, nullptr));
  CUDA_CHECK(cudaDeviceSynchronize());
  const int binomial[] = {1, 4, 6, 4, 1};
  check_values("after 4 steps", now.values(), [&](size_t i) { return i < 5 ? binomial[i] : 0; });

  // The same through the extensible launch, four steps further: binomial coefficients of 8.
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kThreads);
  config.attrs = &attribute;
  config.numAttrs = 1;
  CUDA_CHECK(cudaLaunchKernelEx(&config, add_neighbours, now_data, next_data, count));
  CUDA_CHECK(cudaDeviceSynchronize());
  const int further[] = {1, 8, 28, 56, 70, 56, 28, 8, 1};
  check_values("after 8 steps", now.values(), [&](size_t i) { return i < 9 ? further[i] : 0; });
  printf("cooperative_launch: %u blocks at once\n", blocks);
  return 0;
}
