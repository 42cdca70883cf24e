// run: devices=1 SIMGPU_KERNEL_US=20000
// Time by events: a kernel of known length takes at least that, times add up, events that cannot be
// timed say so.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <cmath>

#include "common/buffer.h"

// 20 ms by the device's own clock.
__global__ void spend_20_ms(int* runs) {
#ifdef __CUDA_ARCH__
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < 20'000'000);
#endif
  *runs += 1;
}

float between_ms(cudaEvent_t from, cudaEvent_t to) {
  float ms = -1;
  CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
  return ms;
}

void check_times(cudaEvent_t start, cudaEvent_t middle, cudaEvent_t end) {
  const float first = between_ms(start, middle), rest = between_ms(middle, end);
  const float all = between_ms(start, end);
  CHECK(first >= 19.9F && rest >= 39.9F, "one kernel %g ms, two %g ms", static_cast<double>(first),
        static_cast<double>(rest));
  CHECK(std::fabs(all - first - rest) < 0.01F, "%g + %g is not %g", static_cast<double>(first),
        static_cast<double>(rest), static_cast<double>(all));
  CHECK(between_ms(end, start) < 0, "time runs backwards");
  printf("event_timing: %.2f + %.2f = %.2f ms\n", static_cast<double>(first),
         static_cast<double>(rest), static_cast<double>(all));
}

int main() {
  simgpu::kernel(
      "spend_20_ms", +[](simgpu::Grid, int* runs) { *runs += 1; });
  const DeviceBuffer<int> runs(std::vector<int>{0});
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t start, middle, end, untimed, never;
  for (cudaEvent_t* event : {&start, &middle, &end, &never}) {
    CUDA_CHECK(cudaEventCreate(event));
  }
  CUDA_CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming | cudaEventBlockingSync));

  CUDA_CHECK(cudaEventRecord(start, stream));
  spend_20_ms<<<1, 1, 0, stream>>>(runs.data());
  CUDA_CHECK(cudaEventRecord(middle, stream));
  spend_20_ms<<<1, 1, 0, stream>>>(runs.data());
  spend_20_ms<<<1, 1, 0, stream>>>(runs.data());
  CUDA_CHECK(cudaEventRecord(end, stream));
  CUDA_CHECK(cudaEventRecord(untimed, stream));
  CUDA_CHECK(cudaGetLastError());
  CUDA_EXPECT(cudaErrorNotReady, cudaEventQuery(end));
  float ms = 0;
  CUDA_EXPECT(cudaErrorNotReady, cudaEventElapsedTime(&ms, start, end));
  cudaGetLastError();
  CUDA_CHECK(cudaEventSynchronize(untimed));
  CUDA_CHECK(cudaEventQuery(end));

  check_times(start, middle, end);
  CUDA_CHECK(cudaEventQuery(never));  // never recorded: nothing to wait for
  CUDA_EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, untimed));
  CUDA_EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, never));
  cudaGetLastError();
  CHECK(runs.values()[0] == 3, "%d kernels ran", runs.values()[0]);
  for (cudaEvent_t event : {start, middle, end, untimed, never}) {
    CUDA_CHECK(cudaEventDestroy(event));
  }
  CUDA_CHECK(cudaStreamDestroy(stream));
  return 0;
}
