// Stream capture: what becomes of calls on captured streams, and every rule that can be broken.
#include "graph_support.h"

namespace graph_test {
namespace {

class Capture : public Graph {
 protected:
  void begin(CUstream s, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED) {
    ASSERT_OK(cuStreamBeginCapture(s, mode));
  }
  CUgraph end(CUstream s) {
    CUgraph graph = nullptr;
    EXPECT_OK(cuStreamEndCapture(s, &graph));
    return graph;
  }
  // The capture must be over, without a graph, because of `reason`.
  void end_fails(CUstream s, CUresult reason) {
    auto graph = reinterpret_cast<CUgraph>(1);
    EXPECT_EQ(reason, cuStreamEndCapture(s, &graph));
    EXPECT_EQ(nullptr, graph);
    EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, status(s));
    put(s, 99);
    EXPECT_OK(cuStreamSynchronize(s));
    EXPECT_TRUE(log_.contains(99));
  }
  // Puts `to` behind what `from` has so far.
  CUresult link(CUstream from, CUstream to) {
    const CUevent link = event();
    EXPECT_OK(cuEventRecord(link, from));
    return cuStreamWaitEvent(to, link, 0);
  }
  CUstream s_ = nullptr, t_ = nullptr;
  void SetUp() override {
    Graph::SetUp();
    s_ = stream(CU_STREAM_NON_BLOCKING);
    t_ = stream(CU_STREAM_NON_BLOCKING);
  }
};

TEST_F(Capture, ForkAndJoinMakeABranch) {
  begin(s_, CU_STREAM_CAPTURE_MODE_GLOBAL);
  put(s_, 1);
  ASSERT_OK(link(s_, t_));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status(t_));
  put(s_, 2);
  put(t_, 3);
  ASSERT_OK(link(t_, s_));
  put(s_, 4);
  const CUgraph graph = end(s_);
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, status(t_));
  const std::vector<CUgraphNode> all = nodes(graph);
  ASSERT_EQ(4u, all.size());
  EXPECT_EQ(4u, edge_count(graph));
  CUgraphNode root = nullptr, dependencies[3] = {};
  size_t count = 1;
  ASSERT_OK(cuGraphGetRootNodes(graph, &root, &count));
  EXPECT_EQ(all[0], root);
  count = 3;
  ASSERT_OK(cuGraphNodeGetDependencies(all[3], dependencies, nullptr, &count));
  EXPECT_EQ(2u, count);
  EXPECT_EQ(all[1], dependencies[0]);
  EXPECT_EQ(all[2], dependencies[1]);
  EXPECT_EQ(nullptr, dependencies[2]);
  ASSERT_OK(cuGraphLaunch(instantiate(graph), s_));
  ASSERT_OK(cuStreamSynchronize(s_));
  EXPECT_EQ(1, log_.entries().front());
  EXPECT_EQ(4, log_.entries().back());
}

TEST_F(Capture, AForkWithoutAJoinFails) {
  begin(s_);
  ASSERT_OK(link(s_, t_));
  put(t_, 1);
  end_fails(s_, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, status(t_));
}

TEST_F(Capture, AForkThatDidNothingNeedsNoJoin) {
  begin(s_);
  put(s_, 1);
  ASSERT_OK(link(s_, t_));
  EXPECT_EQ(1u, node_count(end(s_)));
}

TEST_F(Capture, WaitingForWorkOutsideFails) {
  const CUevent outside = event();
  ASSERT_OK(cuEventRecord(outside, t_));
  begin(s_);
  EXPECT_CUDA(ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(s_, outside, 0));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_INVALIDATED, status(s_));
  EXPECT_CUDA(ERROR_STREAM_CAPTURE_INVALIDATED, cuLaunchHostFunc(
                                                    s_, [](void*) {}, nullptr));
  end_fails(s_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, TwoCapturesDoNotMix) {
  begin(s_);
  begin(t_);
  EXPECT_CUDA(ERROR_STREAM_CAPTURE_MERGE, link(s_, t_));
  end_fails(s_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  end_fails(t_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, EndsOnlyWhereItBegan) {
  CUgraph graph = nullptr;
  EXPECT_CUDA(ERROR_ILLEGAL_STATE, cuStreamEndCapture(s_, &graph));
  begin(s_);
  EXPECT_CUDA(ERROR_ILLEGAL_STATE, cuStreamBeginCapture(s_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(link(s_, t_));
  EXPECT_CUDA(ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(t_, &graph));
  end_fails(s_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, EndsInItsThreadUnlessRelaxed) {
  for (const bool relaxed : {false, true}) {
    begin(s_, relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    std::thread([&] {
      CUgraph graph = nullptr;
      cuCtxSetCurrent(context_);
      EXPECT_EQ(relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                cuStreamEndCapture(s_, &graph));
    }).join();
    if (!relaxed) {
      EXPECT_NE(nullptr, end(s_));
    }
  }
}

TEST_F(Capture, TheLegacyStreamIsUnusableBesideABlockingCapture) {
  const CUstream blocking = stream(CU_STREAM_DEFAULT);
  EXPECT_CUDA(ERROR_STREAM_CAPTURE_UNSUPPORTED,
              cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
  begin(blocking);
  CUstreamCaptureStatus ignored;
  EXPECT_CUDA(ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(CU_STREAM_LEGACY, &ignored));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status(blocking));
  EXPECT_CUDA(ERROR_STREAM_CAPTURE_IMPLICIT, cuLaunchHostFunc(
                                                 CU_STREAM_LEGACY, [](void*) {}, nullptr));
  end_fails(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(s_);  // a non-blocking stream is no hindrance
  put(CU_STREAM_LEGACY, 1);
  EXPECT_OK(cuStreamSynchronize(CU_STREAM_LEGACY));
  EXPECT_NE(nullptr, end(s_));
}

TEST_F(Capture, SynchronisingACapturedStreamInvalidates) {
  for (CUresult (*call)(CUstream) : {cuStreamSynchronize, cuStreamQuery}) {
    begin(s_);
    put(s_, 1);
    EXPECT_CUDA(ERROR_STREAM_CAPTURE_UNSUPPORTED, call(s_));
    end_fails(s_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}

TEST_F(Capture, UnsafeCallsFollowTheModes) {
  CUdeviceptr memory = 0;
  begin(s_, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_CUDA(ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&memory, 256));
  end_fails(s_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  begin(s_, CU_STREAM_CAPTURE_MODE_GLOBAL);
  ASSERT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
  EXPECT_OK(cuMemAlloc(&memory, 256));
  EXPECT_OK(cuMemFree(memory));
  ASSERT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(CU_STREAM_CAPTURE_MODE_RELAXED, mode);
  EXPECT_NE(nullptr, end(s_));

  begin(s_, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_OK(cuMemAlloc(&memory, 256));
  EXPECT_OK(cuMemFree(memory));
  EXPECT_NE(nullptr, end(s_));
}

TEST_F(Capture, AGlobalCaptureBindsOtherThreadsAndIsBrokenByThem) {
  const auto allocate_elsewhere = [&](CUstreamCaptureMode mode) {
    CUresult result = CUDA_ERROR_UNKNOWN;
    std::thread([&] {
      CUdeviceptr memory = 0;
      cuCtxSetCurrent(context_);
      cuThreadExchangeStreamCaptureMode(&mode);
      result = cuMemAlloc(&memory, 256);
    }).join();
    return result;
  };
  begin(s_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_OK(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_NE(nullptr, end(s_));
  begin(s_, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_OK(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_OK(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status(s_));
  EXPECT_CUDA(ERROR_STREAM_CAPTURE_UNSUPPORTED, allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL));
  end_fails(s_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, CapturedEventsAreNoOrdinaryEvents) {
  const CUevent inside = event();
  begin(s_);
  put(s_, 1);
  ASSERT_OK(cuEventRecord(inside, s_));
  EXPECT_CUDA(ERROR_CAPTURED_EVENT, cuEventQuery(inside));
  EXPECT_CUDA(ERROR_CAPTURED_EVENT, cuEventSynchronize(inside));
  EXPECT_NE(nullptr, end(s_));
  EXPECT_CUDA(ERROR_CAPTURED_EVENT, cuEventQuery(inside));
  EXPECT_CUDA(ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(t_, inside, 0));
  ASSERT_OK(cuEventRecord(inside, s_));
  EXPECT_OK(cuEventSynchronize(inside));
}

TEST_F(Capture, ExternalEventsBecomeNodes) {
  const CUevent reached = event(), allowed = event();
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuEventRecordWithFlags(reached, s_, CU_EVENT_RECORD_EXTERNAL));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuStreamWaitEvent(s_, allowed, CU_EVENT_WAIT_EXTERNAL));
  begin(s_);
  ASSERT_OK(cuStreamWaitEvent(s_, allowed, CU_EVENT_WAIT_EXTERNAL));
  put(s_, 1);
  ASSERT_OK(cuEventRecordWithFlags(reached, s_, CU_EVENT_RECORD_EXTERNAL));
  const CUgraph graph = end(s_);
  const std::vector<CUgraphNode> all = nodes(graph);
  ASSERT_EQ(3u, all.size());
  EXPECT_EQ(CU_GRAPH_NODE_TYPE_WAIT_EVENT, type_of(all[0]));
  EXPECT_EQ(CU_GRAPH_NODE_TYPE_EVENT_RECORD, type_of(all[2]));
  CUevent found = nullptr;
  ASSERT_OK(cuGraphEventRecordNodeGetEvent(all[2], &found));
  EXPECT_EQ(reached, found);
  ASSERT_OK(cuGraphLaunch(instantiate(graph), s_));
  EXPECT_OK(cuEventSynchronize(reached));
  EXPECT_TRUE(log_.contains(1));
}

TEST_F(Capture, InfoTellsIdGraphAndFrontier) {
  CUstreamCaptureStatus state;
  cuuint64_t id = 0, other_id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* frontier = nullptr;
  size_t count = 7;
  begin(s_);
  put(s_, 1);
  put(s_, 2);
  ASSERT_OK(cuStreamGetCaptureInfo(s_, &state, &id, &graph, &frontier, nullptr, &count));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, state);
  ASSERT_EQ(1u, count);
  EXPECT_EQ(nodes(graph)[1], frontier[0]);
  // Taken out of the frontier, the second node may stay without a successor.
  CUgraphNode first = nodes(graph)[0];
  ASSERT_OK(cuStreamUpdateCaptureDependencies(s_, &first, nullptr, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  put(s_, 3);
  ASSERT_OK(cuStreamGetCaptureInfo(s_, &state, &other_id, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(id, other_id);
  EXPECT_EQ(graph, end(s_));
  CUgraphNode parent = nullptr;
  count = 1;
  ASSERT_OK(cuGraphNodeGetDependencies(nodes(graph)[2], &parent, nullptr, &count));
  EXPECT_EQ(first, parent);
  EXPECT_CUDA(ERROR_ILLEGAL_STATE, cuStreamUpdateCaptureDependencies(s_, &first, nullptr, 1, 0));
  begin(s_);
  ASSERT_OK(cuStreamGetCaptureInfo(s_, &state, &other_id, nullptr, nullptr, nullptr, nullptr));
  EXPECT_NE(id, other_id);
  EXPECT_NE(nullptr, end(s_));
}

TEST_F(Capture, GoesIntoAGraphThatExists) {
  const CUgraph graph = new_graph();
  CUgraphNode first = host_node(graph, 1);
  ASSERT_OK(
      cuStreamBeginCaptureToGraph(s_, graph, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
  put(s_, 2);
  CUgraphExec exec = nullptr;
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph, 0));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphDestroy(graph));
  EXPECT_EQ(graph, end(s_));
  EXPECT_EQ(1u, edge_count(graph));
  ASSERT_OK(cuGraphLaunch(instantiate(graph), s_));
  ASSERT_OK(cuStreamSynchronize(s_));
  EXPECT_EQ((std::vector<int>{1, 2}), log_.entries());
}

TEST_F(Capture, ALaunchInsideBecomesAChildGraph) {
  const CUgraph inner = new_graph();
  host_node(inner, 2);
  const CUgraphExec inner_exec = instantiate(inner);
  begin(s_);
  put(s_, 1);
  ASSERT_OK(cuGraphLaunch(inner_exec, s_));
  put(s_, 3);
  const CUgraph graph = end(s_);
  EXPECT_EQ(CU_GRAPH_NODE_TYPE_GRAPH, type_of(nodes(graph)[1]));
  ASSERT_OK(cuGraphExecDestroy(inner_exec));
  ASSERT_OK(cuGraphLaunch(instantiate(graph), s_));
  ASSERT_OK(cuStreamSynchronize(s_));
  EXPECT_EQ((std::vector<int>{1, 2, 3}), log_.entries());
}

TEST_F(Capture, KernelsCopiesAndSetsAreNodesWithTheirParameters) {
  simgpu::kernel(
      "graph_add", +[](simgpu::Grid, int* to, int what) { *to += what; });
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, 64));
  int result = 0, what = 5;
  void* arguments[] = {&memory, &what};
  begin(s_);
  ASSERT_OK(cuMemsetD32Async(memory, 2, 16, s_));
  ASSERT_OK(launch(function("graph_add"), s_, arguments));
  ASSERT_OK(cuMemcpyDtoHAsync(&result, memory, sizeof result, s_));
  const CUgraph graph = end(s_);
  const std::vector<CUgraphNode> all = nodes(graph);
  ASSERT_EQ(3u, all.size());
  CUDA_MEMSET_NODE_PARAMS set = {};
  ASSERT_OK(cuGraphMemsetNodeGetParams(all[0], &set));
  EXPECT_EQ(memory, set.dst);
  EXPECT_EQ(2u, set.value);
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  ASSERT_OK(cuGraphKernelNodeGetParams(all[1], &kernel));
  EXPECT_EQ(function("graph_add"), kernel.func);
  EXPECT_EQ(32u, kernel.blockDimX);
  EXPECT_EQ(5, *static_cast<int*>(kernel.kernelParams[1]));
  CUDA_MEMCPY3D copy = {};
  ASSERT_OK(cuGraphMemcpyNodeGetParams(all[2], &copy));
  EXPECT_EQ(sizeof result, copy.WidthInBytes);
  const CUgraphExec exec = instantiate(graph);
  ASSERT_OK(cuGraphLaunch(exec, s_));
  ASSERT_OK(cuStreamSynchronize(s_));
  EXPECT_EQ(7, result);
  ASSERT_OK(cuMemFree(memory));
}

TEST_F(Capture, ADestroyedStreamTakesItsCaptureWithIt) {
  begin(s_, CU_STREAM_CAPTURE_MODE_GLOBAL);
  ASSERT_OK(link(s_, t_));
  ASSERT_OK(cuStreamDestroy(s_));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, status(t_));
  CUdeviceptr memory = 0;
  EXPECT_OK(cuMemAlloc(&memory, 256));
}

TEST_F(Capture, ThreadsCaptureAndLaunchOnTheirOwn) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      cuCtxSetCurrent(context_);
      const CUstream s = stream(CU_STREAM_NON_BLOCKING), t = stream(CU_STREAM_NON_BLOCKING);
      for (int round = 0; round < 50; ++round) {
        std::atomic<int> ran{0};
        const CUhostFn count = [](void* n) { ++*static_cast<std::atomic<int>*>(n); };
        CUgraph graph = nullptr;
        CUgraphExec exec = nullptr;
        EXPECT_OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        EXPECT_OK(cuLaunchHostFunc(s, count, &ran));
        EXPECT_OK(link(s, t));
        EXPECT_OK(cuLaunchHostFunc(s, count, &ran));
        EXPECT_OK(cuLaunchHostFunc(t, count, &ran));
        EXPECT_OK(link(t, s));
        EXPECT_OK(cuStreamEndCapture(s, &graph));
        EXPECT_OK(cuGraphInstantiate(&exec, graph, 0));
        EXPECT_OK(cuGraphLaunch(exec, s));
        EXPECT_OK(cuGraphLaunch(exec, t));
        EXPECT_OK(cuGraphExecDestroy(exec));
        EXPECT_OK(cuGraphDestroy(graph));
        EXPECT_OK(cuStreamSynchronize(s));
        EXPECT_OK(cuStreamSynchronize(t));
        right += ran == 6;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(200, right);
}

}  // namespace
}  // namespace graph_test
