// run: devices=1
// Work that is recorded once from streams and launched many times: a fork to a second stream and a
// join by events, and what a capture forbids.
#include <cuda_runtime.h>
#include <simgpu.h>

#include "common/buffer.h"

__global__ void add(int* values, int count, int amount) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    values[i] += amount;
  }
}

constexpr int kCount = 4096;

void add_async(int* values, int amount, cudaStream_t stream) {
  add<<<kCount / 256, 256, 0, stream>>>(values, kCount, amount);
  CUDA_CHECK(cudaGetLastError());
}

// left += 1 and right += 10 side by side, then left += 100 behind both.
cudaGraph_t capture(int* left, int* right, cudaStream_t stream, cudaStream_t side) {
  cudaEvent_t fork, join;
  CUDA_CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CUDA_CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA_CHECK(cudaEventRecord(fork, stream));
  CUDA_CHECK(cudaStreamWaitEvent(side, fork, 0));
  add_async(left, 1, stream);
  add_async(right, 10, side);
  cudaStreamCaptureStatus status;
  CUDA_CHECK(cudaStreamIsCapturing(side, &status));
  CHECK(status == cudaStreamCaptureStatusActive, "the second stream did not join the capture");
  CUDA_CHECK(cudaEventRecord(join, side));
  CUDA_CHECK(cudaStreamWaitEvent(stream, join, 0));
  add_async(left, 100, stream);
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  CUDA_CHECK(cudaEventDestroy(fork));
  CUDA_CHECK(cudaEventDestroy(join));
  return graph;
}

// A stream that is captured cannot be waited for: the capture is lost, the stream goes on.
void check_forbidden(cudaStream_t stream, int* values) {
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  add_async(values, 1, stream);
  CUDA_EXPECT(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
  cudaStreamCaptureStatus status;
  CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  CHECK(status == cudaStreamCaptureStatusInvalidated, "status is %d", status);
  cudaGraph_t graph = nullptr;
  CUDA_EXPECT(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  CHECK(!graph, "an invalid capture gave a graph");
  cudaGetLastError();
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

int main() {
  simgpu::kernel(
      "add", +[](simgpu::Grid, int* values, int count, int amount) {
        for (int i = 0; i < count; ++i) {
          values[i] += amount;
        }
      });
  const DeviceBuffer<int> left(std::vector<int>(kCount, 0)), right(std::vector<int>(kCount, 0));
  cudaStream_t stream, side;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  const cudaGraph_t graph = capture(left.data(), right.data(), stream, side);
  check_values("before the launch", left.values(), [](size_t) { return 0; });

  size_t nodes = 0;
  CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 3, "the graph has %zu nodes", nodes);
  cudaGraphExec_t exec;
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_CHECK(cudaGraphDestroy(graph));
  for (int i = 0; i < 10; ++i) {
    CUDA_CHECK(cudaGraphLaunch(exec, stream));
  }
  CUDA_CHECK(cudaStreamSynchronize(stream));
  check_values("left", left.values(), [](size_t) { return 1010; });
  check_values("right", right.values(), [](size_t) { return 100; });

  check_forbidden(stream, left.data());
  check_values("left, not launched", left.values(), [](size_t) { return 1010; });
  CUDA_CHECK(cudaGraphExecDestroy(exec));
  CUDA_CHECK(cudaStreamDestroy(side));
  CUDA_CHECK(cudaStreamDestroy(stream));
  printf("graph_capture: 10 launches of %zu nodes\n", nodes);
  return 0;
}
