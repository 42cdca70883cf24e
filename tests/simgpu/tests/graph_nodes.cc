// Building graphs by hand: nodes of all kinds, edges, clones, user objects, the dot file.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "graph_support.h"

namespace graph_test {
namespace {

class Nodes : public Graph {
 protected:
  void SetUp() override {
    Graph::SetUp();
    s_ = stream();
    ASSERT_OK(cuMemAlloc(&memory_, 256));
  }
  void TearDown() override { EXPECT_OK(cuMemFree(memory_)); }
  void run(CUgraph graph) {
    const CUgraphExec exec = instantiate(graph);
    ASSERT_OK(cuGraphLaunch(exec, s_));
    ASSERT_OK(cuStreamSynchronize(s_));
    ASSERT_OK(cuGraphExecDestroy(exec));
  }
  CUDA_MEMSET_NODE_PARAMS set_to(unsigned value) const { return {memory_, 0, value, 4, 64, 1}; }
  static CUDA_MEMCPY3D copy_out(int* to, CUdeviceptr from) {
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = to;
    copy.WidthInBytes = sizeof(int);
    copy.Height = copy.Depth = 1;
    return copy;
  }

  CUstream s_ = nullptr;
  CUdeviceptr memory_ = 0;
};

TEST_F(Nodes, DoTheirWorkAndGiveTheirParametersBack) {
  simgpu::kernel(
      "graph_double", +[](simgpu::Grid, int* value) { *value *= 2; });
  const CUgraph graph = new_graph();
  CUgraphNode set = nullptr, kernel = nullptr, copy = nullptr, empty = nullptr;
  const CUDA_MEMSET_NODE_PARAMS set_params = set_to(21);
  ASSERT_OK(cuGraphAddMemsetNode(&set, graph, nullptr, 0, &set_params, context_));
  void* arguments[] = {&memory_};
  CUDA_KERNEL_NODE_PARAMS kernel_params = {};
  kernel_params.func = function("graph_double");
  kernel_params.gridDimX = kernel_params.gridDimY = kernel_params.gridDimZ = 1;
  kernel_params.blockDimX = kernel_params.blockDimY = kernel_params.blockDimZ = 1;
  kernel_params.kernelParams = arguments;
  ASSERT_OK(cuGraphAddKernelNode(&kernel, graph, &set, 1, &kernel_params));
  ASSERT_OK(cuGraphAddEmptyNode(&empty, graph, &kernel, 1));
  int result = 0;
  const CUDA_MEMCPY3D copy_params = copy_out(&result, memory_);
  ASSERT_OK(cuGraphAddMemcpyNode(&copy, graph, &empty, 1, &copy_params, context_));
  run(graph);
  EXPECT_EQ(42, result);

  CUDA_MEMSET_NODE_PARAMS read_set = {};
  ASSERT_OK(cuGraphMemsetNodeGetParams(set, &read_set));
  EXPECT_EQ(21u, read_set.value);
  read_set.value = 4;
  ASSERT_OK(cuGraphMemsetNodeSetParams(set, &read_set));
  CUDA_KERNEL_NODE_PARAMS read_kernel = {};
  ASSERT_OK(cuGraphKernelNodeGetParams(kernel, &read_kernel));
  EXPECT_EQ(kernel_params.func, read_kernel.func);
  EXPECT_EQ(memory_, *static_cast<CUdeviceptr*>(read_kernel.kernelParams[0]));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphKernelNodeGetParams(set, &read_kernel));
  run(graph);
  EXPECT_EQ(8, result);
}

TEST_F(Nodes, GenericCallsMakeAllKinds) {
  const CUgraph graph = new_graph();
  int result = 0;
  CUgraphNode set = nullptr, copy = nullptr, host = nullptr, child = nullptr, memop = nullptr;
  CUgraphNodeParams p = {};
  p.type = CU_GRAPH_NODE_TYPE_MEMSET;
  p.memset = {memory_, 0, 9, 4, 64, 1, context_};
  ASSERT_OK(cuGraphAddNode(&set, graph, nullptr, nullptr, 0, &p));
  p = {};
  p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  CUstreamBatchMemOpParams operation = {};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = memory_;
  operation.writeValue.value = 77;
  p.memOp = {context_, 1, &operation, 0};
  ASSERT_OK(cuGraphAddNode(&memop, graph, &set, nullptr, 1, &p));
  p = {};
  p.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  p.memcpy = {0, 0, context_, copy_out(&result, memory_)};
  ASSERT_OK(cuGraphAddNode(&copy, graph, &memop, nullptr, 1, &p));
  p = {};
  p.type = CU_GRAPH_NODE_TYPE_GRAPH;
  p.graph.graph = new_graph();
  host_node(p.graph.graph, 5);
  ASSERT_OK(cuGraphAddNode(&child, graph, &copy, nullptr, 1, &p));
  CUgraph inside = nullptr;
  ASSERT_OK(cuGraphChildGraphNodeGetGraph(child, &inside));
  EXPECT_EQ(inside, p.graph.graph);
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphDestroy(inside));
  p = {};
  p.type = CU_GRAPH_NODE_TYPE_HOST;
  p.host = {Entry::write, nullptr};
  Entry entry = {&log_, 6};
  p.host.userData = &entry;
  ASSERT_OK(cuGraphAddNode(&host, graph, &child, nullptr, 1, &p));
  run(graph);
  EXPECT_EQ(77, result);
  EXPECT_EQ((std::vector<int>{5, 6}), log_.entries());
  CUDA_BATCH_MEM_OP_NODE_PARAMS read = {};
  ASSERT_OK(cuGraphBatchMemOpNodeGetParams(memop, &read));
  ASSERT_EQ(1u, read.count);
  EXPECT_EQ(77u, read.paramArray[0].writeValue.value);
  p = {};
  p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  EXPECT_CUDA(ERROR_NOT_SUPPORTED, cuGraphAddNode(&host, graph, nullptr, nullptr, 0, &p));
}

TEST_F(Nodes, EdgesCanBeListedAddedAndRemoved) {
  const CUgraph graph = new_graph();
  const CUgraphNode a = host_node(graph, 1), b = host_node(graph, 2), c = host_node(graph, 3, {b});
  ASSERT_OK(cuGraphAddDependencies(graph, &a, &c, nullptr, 1));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &c, nullptr, 1));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &a, nullptr, 1));
  CUgraphNode from[4], to[4];
  size_t count = 4;
  ASSERT_OK(cuGraphGetEdges(graph, from, to, nullptr, &count));
  ASSERT_EQ(2u, count);
  EXPECT_EQ(b, from[0]);
  EXPECT_EQ(c, to[0]);
  EXPECT_EQ(a, from[1]);
  count = 1;
  CUgraphNode dependents[1];
  ASSERT_OK(cuGraphNodeGetDependentNodes(a, dependents, nullptr, &count));
  EXPECT_EQ(c, dependents[0]);
  ASSERT_OK(cuGraphRemoveDependencies(graph, &b, &c, nullptr, 1));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &b, &c, nullptr, 1));
  EXPECT_EQ(1u, edge_count(graph));
  ASSERT_OK(cuGraphDestroyNode(a));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphDestroyNode(a));
  EXPECT_EQ(2u, node_count(graph));
  EXPECT_EQ(0u, edge_count(graph));
  CUgraphNode twice[] = {b, b}, node = nullptr;
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, graph, twice, 2));
  const CUgraph other = new_graph();
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, other, &b, 1));
}

TEST_F(Nodes, ProgrammaticEdgesAreForKernelsAndNotLost) {
  const CUgraph graph = new_graph();
  CUDA_KERNEL_NODE_PARAMS p = {};
  p.func = function("graph_nothing");
  p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  CUgraphNode a = nullptr, b = nullptr;
  ASSERT_OK(cuGraphAddKernelNode(&a, graph, nullptr, 0, &p));
  ASSERT_OK(cuGraphAddKernelNode(&b, graph, nullptr, 0, &p));
  const CUgraphNode host = host_node(graph, 1);
  CUgraphEdgeData data = {};
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &host, &data, 1));
  ASSERT_OK(cuGraphAddDependencies(graph, &a, &b, &data, 1));
  CUgraphNode from[1];
  CUgraphEdgeData read[1];
  size_t count = 1;
  EXPECT_CUDA(ERROR_LOSSY_QUERY, cuGraphNodeGetDependencies(b, from, nullptr, &count));
  ASSERT_OK(cuGraphNodeGetDependencies(b, from, read, &count));
  EXPECT_EQ(0, memcmp(&data, read, sizeof data));
  run(graph);
}

TEST_F(Nodes, ACycleCannotBeInstantiated) {
  const CUgraph graph = new_graph();
  const CUgraphNode a = host_node(graph, 1), b = host_node(graph, 2, {a});
  ASSERT_OK(cuGraphAddDependencies(graph, &b, &a, nullptr, 1));
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS p = {};
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph, &p));
  EXPECT_EQ(CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, p.result_out);
  EXPECT_TRUE(p.hErrNode_out == a || p.hErrNode_out == b);
  EXPECT_EQ(nullptr, exec);
  ASSERT_OK(cuGraphRemoveDependencies(graph, &b, &a, nullptr, 1));
  p.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  p.hUploadStream = s_;
  ASSERT_OK(cuGraphInstantiateWithParams(&exec, graph, &p));
  EXPECT_EQ(CUDA_GRAPH_INSTANTIATE_SUCCESS, p.result_out);
  cuuint64_t flags = 0;
  ASSERT_OK(cuGraphExecGetFlags(exec, &flags));
  EXPECT_EQ(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, flags);
  EXPECT_CUDA(ERROR_NOT_SUPPORTED,
              cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
}

TEST_F(Nodes, ClonesAreSeparateAndKnowTheirOrigin) {
  const CUgraph graph = new_graph();
  const CUgraphNode a = host_node(graph, 1), b = host_node(graph, 2, {a});
  CUgraph clone = nullptr;
  ASSERT_OK(cuGraphClone(&clone, graph));
  CUgraphNode twin = nullptr;
  ASSERT_OK(cuGraphNodeFindInClone(&twin, b, clone));
  EXPECT_NE(b, twin);
  Entry entry = {&log_, 3};
  const CUDA_HOST_NODE_PARAMS p = {Entry::write, &entry};
  ASSERT_OK(cuGraphHostNodeSetParams(twin, &p));
  ASSERT_OK(cuGraphDestroyNode(a));
  EXPECT_EQ(1u, edge_count(clone));
  run(clone);
  run(graph);
  EXPECT_EQ((std::vector<int>{1, 3, 2}), log_.entries());
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&twin, twin, graph));
  ASSERT_OK(cuGraphDestroy(clone));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphDestroy(clone));
}

TEST_F(Nodes, KernelAttributesAreKept) {
  const CUgraph graph = new_graph();
  CUDA_KERNEL_NODE_PARAMS p = {};
  p.func = function("graph_nothing");
  p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  CUgraphNode a = nullptr, b = nullptr;
  ASSERT_OK(cuGraphAddKernelNode(&a, graph, nullptr, 0, &p));
  ASSERT_OK(cuGraphAddKernelNode(&b, graph, nullptr, 0, &p));
  CUlaunchAttributeValue value = {};
  value.priority = -3;
  ASSERT_OK(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  ASSERT_OK(cuGraphKernelNodeCopyAttributes(b, a));
  value.priority = 0;
  ASSERT_OK(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  EXPECT_EQ(-3, value.priority);
  ASSERT_OK(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  EXPECT_EQ(0, value.cooperative);
  const CUgraphNode host = host_node(graph, 1);
  EXPECT_CUDA(ERROR_INVALID_VALUE,
              cuGraphKernelNodeGetAttribute(host, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
}

TEST_F(Nodes, UserObjectsLiveAsLongAsGraphsExecutablesAndLaunches) {
  CUuserObject object = nullptr;
  Entry entry = {&log_, 50};
  ASSERT_OK(
      cuUserObjectCreate(&object, &entry, Entry::write, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  const CUgraph graph = new_graph();
  Latch latch;
  latch_node(graph, latch);
  ASSERT_OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  ASSERT_OK(cuUserObjectRelease(object, 1));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphReleaseUserObject(graph, object, 2));
  CUgraph clone = nullptr;
  ASSERT_OK(cuGraphClone(&clone, graph));
  const CUgraphExec exec = instantiate(clone);
  ASSERT_OK(cuGraphLaunch(exec, s_));
  ASSERT_OK(cuGraphDestroy(graph));
  ASSERT_OK(cuGraphDestroy(clone));
  ASSERT_OK(cuGraphExecDestroy(exec));
  EXPECT_FALSE(log_.wait_for(50, std::chrono::milliseconds(20)));
  latch.release();
  EXPECT_TRUE(log_.wait_for(50));
}

TEST_F(Nodes, TheDotFileShowsNodesAndEdges) {
  const CUgraph graph = new_graph();
  CUDA_KERNEL_NODE_PARAMS p = {};
  p.func = function("graph_nothing");
  p.gridDimX = 7;
  p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  CUgraphNode kernel = nullptr, child = nullptr;
  ASSERT_OK(cuGraphAddKernelNode(&kernel, graph, nullptr, 0, &p));
  const CUgraph inner = new_graph();
  host_node(inner, 1);
  ASSERT_OK(cuGraphAddChildGraphNode(&child, graph, &kernel, 1, inner));
  const std::string path = testing::TempDir() + "graph_nodes_" + std::to_string(getpid());
  ASSERT_OK(cuGraphDebugDotPrint(graph, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  remove(path.c_str());
  for (const char* part :
       {"digraph dot {", "graph_nothing", "gridDim=(7,1,1)",
        "\"graph_0_node_0\" -> \"graph_0_node_1\"", "cluster_1", "graph_1_node_0", "HOST"}) {
    EXPECT_NE(std::string::npos, text.str().find(part)) << part << "\n" << text.str();
  }
  EXPECT_CUDA(ERROR_OPERATING_SYSTEM, cuGraphDebugDotPrint(graph, "/nowhere/at/all", 0));
}

TEST_F(Nodes, StaleHandlesAreRecognised) {
  const CUgraph graph = new_graph();
  const CUgraphNode node = host_node(graph, 1);
  ASSERT_OK(cuGraphDestroy(graph));
  CUgraphNodeType type;
  size_t count = 0;
  CUgraphExec exec = nullptr;
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphNodeGetType(node, &type));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphGetNodes(graph, nullptr, &count));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph, 0));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphDestroy(nullptr));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGraphLaunch(nullptr, s_));
}

}  // namespace
}  // namespace graph_test
