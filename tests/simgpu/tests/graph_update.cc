// Changing executables: whole graphs, single nodes, nodes switched off.
#include "graph_support.h"

namespace graph_test {
namespace {

class Update : public Graph {
 protected:
  void SetUp() override {
    Graph::SetUp();
    s_ = stream();
  }
  void run(CUgraphExec exec) {
    ASSERT_OK(cuGraphLaunch(exec, s_));
    ASSERT_OK(cuStreamSynchronize(s_));
  }
  // Two nodes and one that joins them, logging from `first` on.
  CUgraph diamond(int first) {
    const CUgraph graph = new_graph();
    const CUgraphNode a = host_node(graph, first), b = host_node(graph, first, {a});
    const CUgraphNode c = host_node(graph, first, {a});
    host_node(graph, first + 1, {b, c});
    return graph;
  }
  CUgraphExecUpdateResultInfo refused(CUgraphExec exec, CUgraph graph) {
    CUgraphExecUpdateResultInfo info = {};
    EXPECT_CUDA(ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, graph, &info));
    return info;
  }
  CUstream s_ = nullptr;
};

TEST_F(Update, TakesOverAGraphOfTheSameShape) {
  const CUgraphExec exec = instantiate(diamond(1));
  CUgraphExecUpdateResultInfo info = {};
  driver_test::Gate gate;
  gate.hold(s_);
  ASSERT_OK(cuGraphLaunch(exec, s_));  // not affected by the update
  ASSERT_OK(cuGraphExecUpdate(exec, diamond(5), &info));
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_SUCCESS, info.result);
  ASSERT_OK(cuGraphLaunch(exec, s_));
  gate.open();
  ASSERT_OK(cuStreamSynchronize(s_));
  EXPECT_EQ((std::vector<int>{1, 1, 1, 2, 5, 5, 5, 6}), log_.entries());
}

TEST_F(Update, RefusesAnotherShapeAndSaysWhere) {
  const CUgraphExec exec = instantiate(diamond(1));
  const CUgraph more = diamond(1);
  host_node(more, 9);
  CUgraphExecUpdateResultInfo info = refused(exec, more);
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
  EXPECT_EQ(nullptr, info.errorNode);

  const CUgraph loose = new_graph();  // as many nodes, two exits
  const CUgraphNode a = host_node(loose, 1), b = host_node(loose, 1, {a});
  host_node(loose, 1, {a});
  host_node(loose, 1, {b});
  info = refused(exec, loose);
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
  EXPECT_NE(nullptr, info.errorNode);

  const CUgraph chain = new_graph();
  CUgraphNode last = host_node(chain, 1);
  for (int i = 0; i < 3; ++i) {
    last = host_node(chain, 1, {last});
  }
  info = refused(exec, chain);
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
  EXPECT_EQ(last, info.errorNode);

  const CUgraph other = new_graph();
  const CUgraphNode x = host_node(other, 1), y = host_node(other, 1, {x});
  CUgraphNode z = nullptr;
  ASSERT_OK(cuGraphAddEmptyNode(&z, other, &x, 1));
  host_node(other, 1, {y, z});
  info = refused(exec, other);
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, info.result);
  EXPECT_EQ(z, info.errorNode);
  run(exec);  // unchanged
  EXPECT_EQ((std::vector<int>{1, 1, 1, 2}), log_.entries());
}

TEST_F(Update, SetsSingleNodesOfTheExecutableOnly) {
  const CUgraph graph = new_graph();
  const CUgraphNode node = host_node(graph, 1);
  const CUgraphExec exec = instantiate(graph);
  Entry entry = {&log_, 2};
  const CUDA_HOST_NODE_PARAMS p = {Entry::write, &entry};
  ASSERT_OK(cuGraphExecHostNodeSetParams(exec, node, &p));
  run(exec);
  run(instantiate(graph));
  EXPECT_EQ((std::vector<int>{2, 1}), log_.entries());
  const CUgraphNode stranger = host_node(graph, 3);  // not there when it was instantiated
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphExecHostNodeSetParams(exec, stranger, &p));
}

TEST_F(Update, SetsCopiesAndSetsWithinTheirShape) {
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, 256));
  const CUgraph graph = new_graph();
  CUgraphNode node = nullptr;
  CUDA_MEMSET_NODE_PARAMS p = {memory, 0, 1, 4, 16, 1};
  ASSERT_OK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &p, context_));
  const CUgraphExec exec = instantiate(graph);
  p.value = 3;
  ASSERT_OK(cuGraphExecMemsetNodeSetParams(exec, node, &p, context_));
  run(exec);
  int value = 0;
  ASSERT_OK(cuMemcpyDtoH(&value, memory, sizeof value));
  EXPECT_EQ(3, value);
  p = {memory, 64, 1, 4, 8, 2};
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, node, &p, context_));
  ASSERT_OK(cuMemFree(memory));
}

TEST_F(Update, SetsKernelArguments) {
  simgpu::kernel(
      "graph_store", +[](simgpu::Grid, int* to, int what) { *to = what; });
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, 256));
  int what = 1, value = 0;
  void* arguments[] = {&memory, &what};
  CUDA_KERNEL_NODE_PARAMS p = {};
  p.func = function("graph_store");
  p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  p.kernelParams = arguments;
  const CUgraph graph = new_graph();
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &p));
  const CUgraphExec exec = instantiate(graph);
  for (what = 10; what < 15; ++what) {
    ASSERT_OK(cuGraphExecKernelNodeSetParams(exec, node, &p));
    run(exec);
    ASSERT_OK(cuMemcpyDtoH(&value, memory, sizeof value));
    EXPECT_EQ(what, value);
  }
  unsigned enabled = 7;
  ASSERT_OK(cuGraphNodeGetEnabled(exec, node, &enabled));
  EXPECT_EQ(1u, enabled);
  ASSERT_OK(cuGraphNodeSetEnabled(exec, node, 0));
  ASSERT_OK(cuMemsetD32(memory, 0, 1));
  run(exec);
  ASSERT_OK(cuMemcpyDtoH(&value, memory, sizeof value));
  EXPECT_EQ(0, value);
  ASSERT_OK(cuGraphNodeSetEnabled(exec, node, 1));
  run(exec);
  ASSERT_OK(cuMemcpyDtoH(&value, memory, sizeof value));
  EXPECT_EQ(14, value);
  ASSERT_OK(cuMemFree(memory));
}

TEST_F(Update, OnlyWorkOfTheDeviceCanBeSwitchedOff) {
  const CUgraph graph = new_graph();
  const CUgraphNode node = host_node(graph, 1);
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(instantiate(graph), node, 0));
}

TEST_F(Update, ReachesIntoChildGraphs) {
  const CUgraph graph = new_graph();
  CUgraphNode child = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&child, graph, nullptr, 0, diamond(1)));
  const CUgraphExec exec = instantiate(graph);
  ASSERT_OK(cuGraphExecChildGraphNodeSetParams(exec, child, diamond(3)));
  run(exec);
  EXPECT_EQ((std::vector<int>{3, 3, 3, 4}), log_.entries());
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphExecChildGraphNodeSetParams(exec, child, new_graph()));
}

TEST_F(Update, SwapsEventsOfEventNodes) {
  const CUgraph graph = new_graph();
  const CUevent first = event(), second = event();
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddEventRecordNode(&node, graph, nullptr, 0, first));
  Latch latch;
  const CUgraph whole = new_graph();
  const CUgraphNode gate = latch_node(whole, latch);
  CUgraphNode child = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&child, whole, &gate, 1, graph));
  CUgraph inside = nullptr;
  ASSERT_OK(cuGraphChildGraphNodeGetGraph(child, &inside));
  const CUgraphExec exec = instantiate(whole);
  ASSERT_OK(cuGraphExecEventRecordNodeSetEvent(exec, nodes(inside)[0], second));
  ASSERT_OK(cuGraphLaunch(exec, s_));
  EXPECT_OK(cuEventQuery(first));
  EXPECT_CUDA(ERROR_NOT_READY, cuEventQuery(second));
  latch.release();
  EXPECT_OK(cuEventSynchronize(second));
}

}  // namespace
}  // namespace graph_test
