// run: devices=1 SIMGPU_KERNEL_US=200
// The host is called from streams: a batch goes to the device, is worked on, comes back, and is
// summed up on the host, in order, without the main thread.  Callbacks are told of the stream's
// state; neither kind may call CUDA.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "common/buffer.h"

__global__ void increment(int* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    values[i] += 1;
  }
}

constexpr int kBatches = 8;
constexpr int kCount = 4096;

struct Batch {
  int number = 0;
  int* host = nullptr;
  int* device = nullptr;
  long sum = 0;
  cudaError_t status = cudaErrorUnknown;
  std::atomic<int>* finished = nullptr;
  int position = -1;
};

void CUDART_CB sum_up(void* data) {
  auto* const batch = static_cast<Batch*>(data);
  batch->sum = std::accumulate(batch->host, batch->host + kCount, 0L);
}

void CUDART_CB note_end(cudaStream_t, cudaError_t status, void* data) {
  auto* const batch = static_cast<Batch*>(data);
  batch->status = status;
  batch->position = (*batch->finished)++;
}

void submit(Batch& batch, cudaStream_t stream) {
  constexpr size_t kBytes = kCount * sizeof(int);
  CUDA_CHECK(cudaMemcpyAsync(batch.device, batch.host, kBytes, cudaMemcpyHostToDevice, stream));
  increment<<<kCount / 256, 256, 0, stream>>>(batch.device, kCount);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaMemcpyAsync(batch.host, batch.device, kBytes, cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaLaunchHostFunc(stream, sum_up, &batch));
  CUDA_CHECK(cudaStreamAddCallback(stream, note_end, &batch, 0));
}

void check_and_free(const std::vector<Batch>& batches) {
  for (size_t i = 0; i < batches.size(); ++i) {
    const Batch& batch = batches[i];
    CHECK(batch.sum == kCount * (batch.number + 1L), "sum %zu is %ld", i, batch.sum);
    CHECK(batch.status == cudaSuccess, "callback %zu was told %d", i, batch.status);
    CHECK(i < 2 || batch.position > batches[i - 2].position,
          "callbacks of a stream ran out of order");
    CUDA_CHECK(cudaFreeHost(batch.host));
    CUDA_CHECK(cudaFree(batch.device));
  }
}

int main() {
  simgpu::kernel(
      "increment", +[](simgpu::Grid, int* values, int count) {
        for (int i = 0; i < count; ++i) {
          values[i] += 1;
        }
      });
  std::atomic<int> finished{0};
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) {
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  std::vector<Batch> batches(kBatches);
  for (int i = 0; i < kBatches; ++i) {
    Batch& batch = batches[static_cast<size_t>(i)];
    batch.number = i;
    batch.finished = &finished;
    CUDA_CHECK(cudaMallocHost(&batch.host, kCount * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&batch.device, kCount * sizeof(int)));
    std::fill_n(batch.host, kCount, i);
  }
  for (Batch& batch : batches) {
    submit(batch, streams[batch.number % 2]);
  }
  for (cudaStream_t stream : streams) {
    CUDA_CHECK(cudaStreamSynchronize(stream));  // callbacks are part of what is waited for
  }
  CHECK(finished == kBatches, "%d callbacks were called", finished.load());
  check_and_free(batches);
  for (cudaStream_t stream : streams) {
    CUDA_CHECK(cudaStreamDestroy(stream));
  }
  printf("host_callbacks: %d batches\n", kBatches);
  return 0;
}
