// Allocation and free nodes: fixed addresses, who may free, what is counted.
#include "graph_support.h"

namespace graph_test {
namespace {

class Memory : public Graph {
 protected:
  static constexpr size_t kBytes = 1 << 20;

  void SetUp() override {
    Graph::SetUp();
    s_ = stream();
  }
  CUdeviceptr alloc_node(CUgraph graph, CUgraphNode& node) {
    CUDA_MEM_ALLOC_NODE_PARAMS p = {};
    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.poolProps.location.id = 0;
    p.bytesize = kBytes;
    EXPECT_OK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &p));
    EXPECT_NE(0u, p.dptr);
    return p.dptr;
  }
  CUgraphNode set_node(CUgraph graph, CUdeviceptr memory, CUgraphNode after) {
    const CUDA_MEMSET_NODE_PARAMS p = {memory, 0, 7, 4, kBytes / 4, 1};
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemsetNode(&node, graph, &after, 1, &p, context_));
    return node;
  }
  cuuint64_t used(CUgraphMem_attribute attribute = CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) {
    cuuint64_t value = 0;
    EXPECT_OK(cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
  }
  CUstream s_ = nullptr;
};

TEST_F(Memory, FreedInTheSameGraphItLaunchesAgainAndAgain) {
  const CUgraph graph = new_graph();
  CUgraphNode alloc = nullptr, free = nullptr;
  const CUdeviceptr memory = alloc_node(graph, alloc);
  const CUgraphNode set = set_node(graph, memory, alloc);
  ASSERT_OK(cuGraphAddMemFreeNode(&free, graph, &set, 1, memory));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&free, graph, &set, 1, memory));
  const CUgraphExec exec = instantiate(graph);
  CUgraphExec second = nullptr;
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphInstantiate(&second, graph, 0));
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(cuGraphLaunch(exec, s_));
  }
  ASSERT_OK(cuStreamSynchronize(s_));
  EXPECT_EQ(0u, used());
  EXPECT_GE(used(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), kBytes);
  EXPECT_GE(used(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), kBytes);
  ASSERT_OK(cuDeviceGraphMemTrim(0));
  EXPECT_EQ(0u, used(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT));
  ASSERT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphInstantiate(&second, graph, 0));
}

TEST_F(Memory, LeftAllocatedItIsTheStreamsToFree) {
  const CUgraph graph = new_graph();
  CUgraphNode alloc = nullptr;
  const CUdeviceptr memory = alloc_node(graph, alloc);
  set_node(graph, memory, alloc);
  const CUgraphExec exec = instantiate(graph);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(cuGraphLaunch(exec, s_));
    int value = 0;
    ASSERT_OK(cuMemcpyDtoHAsync(&value, memory + kBytes - 4, sizeof value, s_));
    ASSERT_OK(cuStreamSynchronize(s_));
    EXPECT_EQ(7, value);
    EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphLaunch(exec, s_));
    ASSERT_OK(cuMemFreeAsync(memory, s_));
  }
}

TEST_F(Memory, AutoFreeAllowsTheNextLaunch) {
  const CUgraph graph = new_graph();
  CUgraphNode alloc = nullptr;
  const CUdeviceptr memory = alloc_node(graph, alloc);
  set_node(graph, memory, alloc);
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(cuGraphLaunch(exec, s_));
  }
  ASSERT_OK(cuStreamSynchronize(s_));
  ASSERT_OK(cuMemFree(memory));
}

TEST_F(Memory, GraphsWithMemoryNodesKeepTheirShape) {
  const CUgraph graph = new_graph();
  CUgraphNode alloc = nullptr, node = nullptr;
  const CUdeviceptr memory = alloc_node(graph, alloc);
  CUgraphNode set = set_node(graph, memory, alloc);
  CUgraph clone = nullptr;
  EXPECT_CUDA(ERROR_NOT_SUPPORTED, cuGraphClone(&clone, graph));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &alloc, &set, nullptr, 1));
  EXPECT_NE(CUDA_SUCCESS, cuGraphDestroyNode(set));
  const CUgraph parent = new_graph();
  EXPECT_CUDA(ERROR_NOT_SUPPORTED, cuGraphAddChildGraphNode(&node, parent, nullptr, 0, graph));
  CUgraphNodeParams p = {};
  p.type = CU_GRAPH_NODE_TYPE_GRAPH;
  p.graph = {graph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
  ASSERT_OK(cuGraphAddNode(&node, parent, nullptr, nullptr, 0, &p));
  CUgraphExec exec = nullptr;
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph, 0));
  ASSERT_OK(cuGraphLaunch(instantiate(parent), s_));
  ASSERT_OK(cuMemFreeAsync(memory, s_));
  ASSERT_OK(cuStreamSynchronize(s_));
}

TEST_F(Memory, CapturedAllocationsAreNodes) {
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamBeginCapture(s_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuMemAllocAsync(&memory, kBytes, s_));
  ASSERT_OK(cuMemsetD8Async(memory, 1, kBytes, s_));
  ASSERT_OK(cuMemFreeAsync(memory, s_));
  ASSERT_OK(cuStreamEndCapture(s_, &graph));
  const std::vector<CUgraphNode> all = nodes(graph);
  ASSERT_EQ(3u, all.size());
  EXPECT_EQ(CU_GRAPH_NODE_TYPE_MEM_ALLOC, type_of(all[0]));
  EXPECT_EQ(CU_GRAPH_NODE_TYPE_MEM_FREE, type_of(all[2]));
  CUDA_MEM_ALLOC_NODE_PARAMS p = {};
  ASSERT_OK(cuGraphMemAllocNodeGetParams(all[0], &p));
  EXPECT_EQ(memory, p.dptr);
  EXPECT_EQ(kBytes, p.bytesize);
  CUdeviceptr freed = 0;
  ASSERT_OK(cuGraphMemFreeNodeGetParams(all[2], &freed));
  EXPECT_EQ(memory, freed);
  const CUgraphExec exec = instantiate(graph);
  ASSERT_OK(cuGraphLaunch(exec, s_));
  ASSERT_OK(cuGraphLaunch(exec, s_));
  ASSERT_OK(cuStreamSynchronize(s_));
}

}  // namespace
}  // namespace graph_test
