// What a launched graph does: order, concurrency, lifetime.
#include <filesystem>

#include "graph_support.h"

namespace graph_test {
namespace {

using GraphLaunch = Graph;

size_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST_F(GraphLaunch, CapturedWorkRunsOnlyWhenLaunchedAndEachTime) {
  const CUstream s = stream();
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  put(s, 1);
  put(s, 2);
  ASSERT_OK(cuStreamEndCapture(s, &graph));
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_TRUE(log_.entries().empty());
  EXPECT_EQ(2u, node_count(graph));
  EXPECT_EQ(1u, edge_count(graph));
  const CUgraphExec exec = instantiate(graph);
  ASSERT_OK(cuGraphDestroy(graph));
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(cuGraphLaunch(exec, s));
  }
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ((std::vector<int>{1, 2, 1, 2, 1, 2}), log_.entries());
  EXPECT_OK(cuGraphExecDestroy(exec));
}

TEST_F(GraphLaunch, IsOrderedWithTheStream) {
  const CUstream s = stream();
  const CUgraph graph = new_graph();
  const CUgraphNode a = host_node(graph, 2);
  const CUgraphNode b = host_node(graph, 3, {a});
  host_node(graph, 3, {a});
  host_node(graph, 4, {b});
  const CUgraphExec exec = instantiate(graph);
  driver_test::Gate gate;
  gate.hold(s);
  put(s, 1);
  ASSERT_OK(cuGraphLaunch(exec, s));
  put(s, 5);
  EXPECT_CUDA(ERROR_NOT_READY, cuStreamQuery(s));
  EXPECT_TRUE(log_.entries().empty());
  gate.open();
  ASSERT_OK(cuStreamSynchronize(s));
  const std::vector<int> entries = log_.entries();
  ASSERT_EQ(6u, entries.size());
  EXPECT_EQ(1, entries.front());
  EXPECT_EQ(2, entries[1]);
  EXPECT_EQ(5, entries.back());
}

TEST_F(GraphLaunch, ABlockedBranchHoldsUpNoOther) {
  const CUstream s = stream();
  const CUgraph graph = new_graph();
  Latch latch;
  const CUgraphNode root = host_node(graph, 0);
  std::vector<CUgraphNode> leaves = {latch_node(graph, latch, {root})};
  for (int i = 1; i <= 6; ++i) {
    const CUgraphNode first = host_node(graph, i, {root});
    leaves.push_back(host_node(graph, 10 * i, {first}));
  }
  host_node(graph, 100, leaves);
  const CUgraphExec exec = instantiate(graph);
  ASSERT_OK(cuGraphLaunch(exec, s));
  put(s, 101);
  for (int i = 1; i <= 6; ++i) {
    EXPECT_TRUE(log_.wait_for(10 * i)) << i;
  }
  EXPECT_FALSE(log_.contains(100));
  EXPECT_FALSE(log_.contains(101));
  latch.release();
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ(100, log_.entries()[log_.entries().size() - 2]);
  EXPECT_EQ(101, log_.entries().back());
}

// Two nodes that need each other to run at the same time.
TEST_F(GraphLaunch, IndependentNodesReallyOverlap) {
  struct Meeting {
    std::atomic<int> arrived{0};
    static void run(void* self) {
      auto* meeting = static_cast<Meeting*>(self);
      ++meeting->arrived;
      while (meeting->arrived < 3) {
        std::this_thread::yield();
      }
    }
  } meeting;
  const CUgraph graph = new_graph();
  for (int i = 0; i < 3; ++i) {
    host_node(graph, {Meeting::run, &meeting});
  }
  const CUgraphExec exec = instantiate(graph);
  const CUstream s = stream();
  ASSERT_OK(cuGraphLaunch(exec, s));
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ(3, meeting.arrived);
}

TEST_F(GraphLaunch, LaunchesOfOneExecutableDoNotOverlap) {
  struct Count {
    std::atomic<int> inside{0}, most{0};
    static void run(void* self) {
      auto* count = static_cast<Count*>(self);
      const int now = ++count->inside;
      count->most = std::max(count->most.load(), now);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      --count->inside;
    }
  } count;
  const CUgraph graph = new_graph();
  host_node(graph, {Count::run, &count});
  const CUgraphExec exec = instantiate(graph);
  const CUstream streams[] = {stream(CU_STREAM_NON_BLOCKING), stream(CU_STREAM_NON_BLOCKING)};
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(cuGraphLaunch(exec, streams[i % 2]));
  }
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(1, count.most);
}

TEST_F(GraphLaunch, DestroyedWhileRunningItRunsToItsEnd) {
  const CUstream s = stream();
  const CUgraph graph = new_graph();
  Latch latch;
  const CUgraphNode gate = latch_node(graph, latch);
  host_node(graph, 1, {gate});
  host_node(graph, 2, {gate});
  const CUgraphExec exec = instantiate(graph);
  ASSERT_OK(cuGraphDestroy(graph));
  ASSERT_OK(cuGraphLaunch(exec, s));
  ASSERT_OK(cuGraphLaunch(exec, s));
  ASSERT_OK(cuGraphExecDestroy(exec));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphLaunch(exec, s));
  latch.release();
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ(4u, log_.entries().size());
}

TEST_F(GraphLaunch, AnEmptyGraphIsFine) {
  const CUstream s = stream();
  const CUgraphExec exec = instantiate(new_graph());
  ASSERT_OK(cuGraphLaunch(exec, s));
  ASSERT_OK(cuStreamSynchronize(s));
}

TEST_F(GraphLaunch, ChildGraphsRunInPlace) {
  const CUgraph child = new_graph();
  const CUgraphNode x = host_node(child, 2);
  host_node(child, 3, {x});
  host_node(child, 3, {x});
  const CUgraph graph = new_graph();
  const CUgraphNode before = host_node(graph, 1);
  CUgraphNode middle = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&middle, graph, &before, 1, child));
  CUgraphNode empty = nullptr;  // a second child, with nothing in it
  ASSERT_OK(cuGraphAddChildGraphNode(&empty, graph, &middle, 1, new_graph()));
  host_node(graph, 4, {empty});
  ASSERT_OK(cuGraphDestroy(child));  // it was cloned
  const CUgraphExec exec = instantiate(graph);
  const CUstream s = stream();
  ASSERT_OK(cuGraphLaunch(exec, s));
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ((std::vector<int>{1, 2, 3, 3, 4}), log_.entries());
}

TEST_F(GraphLaunch, EventNodesRecordAtEachLaunchAndCompleteBeforeTheGraphDoes) {
  const CUstream s = stream();
  const CUgraph graph = new_graph();
  const CUevent reached = event();
  Latch before, after;
  const CUgraphNode first = latch_node(graph, before);
  CUgraphNode record = nullptr;
  ASSERT_OK(cuGraphAddEventRecordNode(&record, graph, &first, 1, reached));
  latch_node(graph, after, {record});
  const CUgraphExec exec = instantiate(graph);
  EXPECT_OK(cuEventQuery(reached));
  ASSERT_OK(cuGraphLaunch(exec, s));
  EXPECT_CUDA(ERROR_NOT_READY, cuEventQuery(reached));
  const CUstream other = stream(CU_STREAM_NON_BLOCKING);
  ASSERT_OK(cuStreamWaitEvent(other, reached, 0));
  put(other, 1);
  EXPECT_FALSE(log_.wait_for(1, std::chrono::milliseconds(20)));
  before.release();
  EXPECT_OK(cuEventSynchronize(reached));
  EXPECT_TRUE(log_.wait_for(1));
  EXPECT_CUDA(ERROR_NOT_READY, cuStreamQuery(s));
  after.release();
  ASSERT_OK(cuGraphLaunch(exec, s));
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_OK(cuEventQuery(reached));
}

TEST_F(GraphLaunch, EventWaitNodesWaitForTheRecordingBeforeTheLaunch) {
  const CUgraph graph = new_graph();
  const CUevent signal = event();
  CUgraphNode wait = nullptr;
  ASSERT_OK(cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, signal));
  host_node(graph, 1, {wait});
  host_node(graph, 2);
  const CUgraphExec exec = instantiate(graph);
  const CUstream s = stream(CU_STREAM_NON_BLOCKING);
  const CUstream other = stream(CU_STREAM_NON_BLOCKING);
  driver_test::Gate gate;
  gate.hold(other);
  ASSERT_OK(cuEventRecord(signal, other));
  ASSERT_OK(cuGraphLaunch(exec, s));
  EXPECT_TRUE(log_.wait_for(2));
  EXPECT_FALSE(log_.wait_for(1, std::chrono::milliseconds(20)));
  gate.open();
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_TRUE(log_.contains(1));
}

TEST_F(GraphLaunch, TimesOfEventNodesAreThoseOfTheWorkBetween) {
  setenv("SIMGPU_KERNEL_US", "2000", 0);  // read with the first module
  const CUgraph graph = new_graph();
  const CUevent start = event(CU_EVENT_DEFAULT), end = event(CU_EVENT_DEFAULT);
  CUgraphNode first = nullptr, last = nullptr;
  ASSERT_OK(cuGraphAddEventRecordNode(&first, graph, nullptr, 0, start));
  const CUgraphNode slow = host_node(
      graph, {[](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }, nullptr},
      {first});
  ASSERT_OK(cuGraphAddEventRecordNode(&last, graph, &slow, 1, end));
  const CUgraphExec exec = instantiate(graph);
  const CUstream s = stream();
  ASSERT_OK(cuGraphLaunch(exec, s));
  ASSERT_OK(cuEventSynchronize(end));
  float milliseconds = 0;
  ASSERT_OK(cuEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 30.0f);
  EXPECT_LT(milliseconds, 5000.0f);
}

TEST_F(GraphLaunch, AFailingNodeStopsTheGraphAndSticks) {
  EXPECT_EQ(0, driver_test::run_again("*DISABLED_FailingNode", ""));
}

TEST_F(GraphLaunch, DISABLED_FailingNode) {
  simgpu::kernel(
      "graph_ok", +[](simgpu::Grid) {});
  const simgpuKernelBody fails = [](void* const*, const simgpuLaunch*, void*) {
    return static_cast<int>(CUDA_ERROR_ILLEGAL_ADDRESS);
  };
  simgpu_register("graph_fails", fails, nullptr, 0, nullptr);
  const CUstream s = stream();
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(launch(function("graph_ok"), s));
  ASSERT_OK(launch(function("graph_fails"), s));
  put(s, 1);
  ASSERT_OK(cuStreamEndCapture(s, &graph));
  const CUgraphExec exec = instantiate(graph);
  ASSERT_OK(cuGraphLaunch(exec, s));
  EXPECT_CUDA(ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
  EXPECT_FALSE(log_.contains(1));
}

// A thousand nodes in layers of four, each layer behind the one before.
TEST_F(GraphLaunch, ManyLayersKeepTheirOrderOnFewThreads) {
  const CUgraph graph = new_graph();
  std::vector<CUgraphNode> layer;
  for (int i = 0; i < 250; ++i) {
    const std::vector<CUgraphNode> before = std::exchange(layer, {});
    for (int k = 0; k < 4; ++k) {
      layer.push_back(host_node(graph, i, before));
    }
  }
  const CUgraphExec exec = instantiate(graph);
  const CUstream s = stream();
  const size_t threads_before = thread_count();
  ASSERT_OK(cuGraphLaunch(exec, s));
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_LE(thread_count(), threads_before + 4);  // the stream's and three lanes'
  const std::vector<int> entries = log_.entries();
  ASSERT_EQ(1000u, entries.size());
  EXPECT_TRUE(std::is_sorted(entries.begin(), entries.end()));
}

}  // namespace
}  // namespace graph_test
