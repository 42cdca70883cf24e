// run: devices=1 SIMGPU_KERNEL_US=300000
// nvcc: --default-stream per-thread
// Compiled so that each thread has a default stream of its own: the work of two threads overlaps,
// though neither made a stream, and a thread waits for its own work only.  The legacy stream would
// make it one after the other.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <chrono>
#include <thread>

#include "common/buffer.h"

__global__ void wait_and_write(int* value, int number, unsigned milliseconds) {
#ifdef __CUDA_ARCH__
  const long long end = clock64() + 1'500'000LL * milliseconds;
  while (clock64() < end) {
  }
#endif
  *value = number;
}

double seconds_of(void (*work)()) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void one_launch(int number) {
  const DeviceBuffer<int> value(std::vector<int>{0});
  wait_and_write<<<1, 1>>>(value.data(), number, 300U);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  int seen = 0;
  CUDA_CHECK(cudaMemcpyAsync(&seen, value.data(), sizeof seen, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaStreamSynchronize(nullptr));  // the thread's own stream as well
  CHECK(seen == number, "value is %d, not %d", seen, number);
}

int main() {
  simgpu::kernel(
      "wait_and_write", +[](simgpu::Grid, int* value, int number, unsigned) { *value = number; });
  CUDA_CHECK(cudaFree(nullptr));
  const double alone = seconds_of([] { one_launch(1); });
  // A launch of one thread leaves the other's stream empty.
  const DeviceBuffer<int> value(std::vector<int>{0});
  wait_and_write<<<1, 1>>>(value.data(), 2, 300U);
  CUDA_CHECK(cudaGetLastError());
  CUDA_EXPECT(cudaErrorNotReady, cudaStreamQuery(cudaStreamPerThread));
  cudaGetLastError();
  std::thread([] { CUDA_CHECK(cudaStreamQuery(cudaStreamPerThread)); }).join();
  CUDA_CHECK(cudaStreamSynchronize(cudaStreamPerThread));

  const double both = seconds_of([] {
    std::vector<std::thread> threads;
    for (const int number : {3, 4, 5, 6}) {
      threads.emplace_back(one_launch, number);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });
  CHECK(both < 3 * alone, "four threads took %.3f s, one alone %.3f s", both, alone);
  printf("per_thread_stream: one thread %.3f s, four threads %.3f s\n", alone, both);
  return 0;
}
