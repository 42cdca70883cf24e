// Graphs as training programs make them: captured through the runtime, with NCCL inside, replayed.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "runtime_support.h"

namespace {

const bool g_alone = (be_alone(), true);

#define NCCL_OK(call) ASSERT_EQ((call), ncclSuccess)

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

// Puts `to` behind what `from` has so far.  The event belongs to `from`'s device, the current one.
void link(cudaStream_t from, cudaStream_t to) {
  cudaEvent_t event = nullptr;
  RT_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  RT_OK(cudaEventRecord(event, from));
  RT_OK(cudaStreamWaitEvent(to, event, 0));
  RT_OK(cudaEventDestroy(event));
}

cudaGraphExec_t instantiate(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return exec;
}

TEST(RuntimeGraph, ACapturedStepIsReplayed) {
  const cudaStream_t main = new_stream(), side = new_stream();
  int* device = nullptr;
  int host[2] = {};
  RT_OK(cudaMalloc(reinterpret_cast<void**>(&device), sizeof host));
  std::atomic<int> steps{0};
  const cudaHostFn_t count = [](void* n) { ++*static_cast<std::atomic<int>*>(n); };
  cudaGraph_t graph = nullptr;
  RT_OK(cudaStreamBeginCapture(main, cudaStreamCaptureModeThreadLocal));
  RT_OK(cudaMemsetAsync(device, 1, 4, main));
  link(main, side);
  RT_OK(cudaMemsetAsync(device + 1, 2, 4, side));
  RT_OK(cudaLaunchHostFunc(main, count, &steps));
  link(side, main);
  RT_OK(cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, main));
  RT_OK(cudaStreamEndCapture(main, &graph));
  size_t nodes = 0, edges = 0;
  RT_OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  RT_OK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(nodes, 4u);
  EXPECT_EQ(edges, 4u);
  const cudaGraphExec_t exec = instantiate(graph);
  for (int step = 1; step <= 3; ++step) {
    host[0] = host[1] = 0;
    RT_OK(cudaGraphLaunch(exec, main));
    RT_OK(cudaStreamSynchronize(main));
    EXPECT_EQ(steps, step);
    EXPECT_EQ(host[0], 0x01010101);
    EXPECT_EQ(host[1], 0x02020202);
  }
  RT_OK(cudaGraphExecDestroy(exec));
  RT_OK(cudaFree(device));
}

TEST(RuntimeGraph, ACaptureAgainUpdatesTheExecutable) {
  const cudaStream_t stream = new_stream();
  int* device = nullptr;
  RT_OK(cudaMalloc(reinterpret_cast<void**>(&device), 4));
  cudaGraphExec_t exec = nullptr;
  for (int value = 1; value <= 4; ++value) {
    cudaGraph_t graph = nullptr;
    int seen = 0;
    RT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    RT_OK(cudaMemsetAsync(device, value, 4, stream));
    RT_OK(cudaStreamEndCapture(stream, &graph));
    if (exec) {
      cudaGraphExecUpdateResultInfo info = {};
      RT_OK(cudaGraphExecUpdate(exec, graph, &info));
      EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
      RT_OK(cudaGraphDestroy(graph));
    } else {
      exec = instantiate(graph);
    }
    RT_OK(cudaGraphLaunch(exec, stream));
    RT_OK(cudaMemcpyAsync(&seen, device, 4, cudaMemcpyDeviceToHost, stream));
    RT_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(seen, 0x01010101 * value);
  }
  RT_OK(cudaGraphExecDestroy(exec));
  RT_OK(cudaFree(device));
}

TEST(RuntimeGraph, AllocationsInACaptureBelongToTheGraph) {
  const cudaStream_t stream = new_stream();
  void* memory = nullptr;
  int seen = 0;
  cudaGraph_t graph = nullptr;
  RT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  RT_OK(cudaMallocAsync(&memory, 1 << 20, stream));
  RT_OK(cudaMemsetAsync(memory, 3, 4, stream));
  RT_OK(cudaMemcpyAsync(&seen, memory, 4, cudaMemcpyDeviceToHost, stream));
  RT_OK(cudaFreeAsync(memory, stream));
  RT_OK(cudaStreamEndCapture(stream, &graph));
  const cudaGraphExec_t exec = instantiate(graph);
  RT_OK(cudaGraphLaunch(exec, stream));
  RT_OK(cudaGraphLaunch(exec, stream));
  RT_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(seen, 0x03030303);
  RT_OK(cudaGraphExecDestroy(exec));
  RT_OK(cudaDeviceGraphMemTrim(0));
}

// Two devices of one process, a communicator over both.
class CollectiveGraph : public testing::Test {
 protected:
  static constexpr size_t kCount = 1000;

  void SetUp() override {
    NCCL_OK(ncclCommInitAll(comms_, 2, nullptr));
    for (int d = 0; d < 2; ++d) {
      RT_OK(cudaSetDevice(d));
      streams_[d] = new_stream();
      RT_OK(cudaMalloc(reinterpret_cast<void**>(&data_[d]), kCount * sizeof(float)));
    }
    fill();
    all_reduce(true);  // the first use connects, which is no matter for a capture
    RT_OK(cudaSetDevice(1));
    RT_OK(cudaStreamSynchronize(streams_[1]));
    RT_OK(cudaSetDevice(0));
    RT_OK(cudaStreamSynchronize(streams_[0]));
    fill();
    RT_OK(cudaSetDevice(0));
  }
  void TearDown() override {
    for (int d = 0; d < 2; ++d) {
      EXPECT_EQ(cudaSetDevice(d), cudaSuccess);
      EXPECT_EQ(ncclCommDestroy(comms_[d]), ncclSuccess);
      EXPECT_EQ(cudaFree(data_[d]), cudaSuccess);
    }
  }
  void fill() {
    for (int d = 0; d < 2; ++d) {
      const std::vector<float> values(kCount, static_cast<float>(d + 1));
      RT_OK(cudaSetDevice(d));
      RT_OK(cudaMemcpy(data_[d], values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
      RT_OK(
          cudaDeviceSynchronize());  // a small copy from pageable memory may return before its end
    }
  }
  void all_reduce(bool both, int only = 0) {
    NCCL_OK(ncclGroupStart());
    for (int d = 0; d < 2; ++d) {
      if (both || d == only) {
        NCCL_OK(
            ncclAllReduce(data_[d], data_[d], kCount, ncclFloat, ncclSum, comms_[d], streams_[d]));
      }
    }
    NCCL_OK(ncclGroupEnd());
  }
  std::vector<float> values(int d) {
    std::vector<float> out(kCount);
    EXPECT_EQ(cudaMemcpy(out.data(), data_[d], kCount * sizeof(float), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return out;
  }

  ncclComm_t comms_[2] = {};
  cudaStream_t streams_[2] = {};
  float* data_[2] = {};
};

TEST_F(CollectiveGraph, OneGraphOverBothDevices) {
  cudaGraph_t graph = nullptr;
  RT_OK(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal));
  link(streams_[0], streams_[1]);
  all_reduce(true);
  RT_OK(cudaSetDevice(1));
  link(streams_[1], streams_[0]);
  RT_OK(cudaSetDevice(0));
  RT_OK(cudaStreamEndCapture(streams_[0], &graph));
  const cudaGraphExec_t exec = instantiate(graph);
  for (int i = 0; i < 3; ++i) {
    RT_OK(cudaGraphLaunch(exec, streams_[0]));
  }
  RT_OK(cudaStreamSynchronize(streams_[0]));
  for (int d = 0; d < 2; ++d) {  // 1+2 = 3, doubled by each further one
    EXPECT_EQ(values(d), std::vector<float>(kCount, 12.0f));
  }
  RT_OK(cudaGraphExecDestroy(exec));
}

TEST_F(CollectiveGraph, AGraphWaitsForTheOtherRanksGraph) {
  cudaGraphExec_t execs[2] = {};
  for (int d = 0; d < 2; ++d) {
    cudaGraph_t graph = nullptr;
    RT_OK(cudaSetDevice(d));
    RT_OK(cudaStreamBeginCapture(streams_[d], cudaStreamCaptureModeThreadLocal));
    all_reduce(false, d);
    RT_OK(cudaStreamEndCapture(streams_[d], &graph));
    execs[d] = instantiate(graph);
  }
  RT_OK(cudaSetDevice(0));
  RT_OK(cudaGraphLaunch(execs[0], streams_[0]));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorNotReady);
  RT_OK(cudaSetDevice(1));
  RT_OK(cudaGraphLaunch(execs[1], streams_[1]));
  RT_OK(cudaStreamSynchronize(streams_[1]));
  RT_OK(cudaSetDevice(0));
  RT_OK(cudaStreamSynchronize(streams_[0]));
  for (int d = 0; d < 2; ++d) {
    EXPECT_EQ(values(d), std::vector<float>(kCount, 3.0f));
    RT_OK(cudaGraphExecDestroy(execs[d]));
  }
}

}  // namespace
