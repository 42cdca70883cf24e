// Graphs built node by node through the runtime.
#include <unistd.h>

#include <cstring>

#include "runtime_support.h"

namespace {

const bool g_alone = (be_alone(), true);

class Graphs : public ::testing::Test {
 protected:
  void SetUp() override {
    RT_OK(cudaGraphCreate(&graph_, 0));
    RT_OK(cudaMalloc(reinterpret_cast<void**>(&memory_), 64));
    RT_OK(cudaMemset(memory_, 0, 64));
  }
  void TearDown() override {
    if (exec_) {
      RT_OK(cudaGraphExecDestroy(exec_));
    }
    RT_OK(cudaGraphDestroy(graph_));
    RT_OK(cudaFree(memory_));
    (void)cudaGetLastError();
  }
  void run() {
    if (!exec_) {
      RT_OK(cudaGraphInstantiate(&exec_, graph_, 0));
    }
    RT_OK(cudaGraphLaunch(exec_, nullptr));
    RT_OK(cudaDeviceSynchronize());
  }
  cudaMemsetParams set_bytes(unsigned value, size_t bytes) {
    cudaMemsetParams params = {};
    params.dst = memory_;
    params.value = value;
    params.elementSize = 1;
    params.width = bytes;
    params.height = 1;
    return params;
  }
  std::vector<unsigned char> read() {
    std::vector<unsigned char> data(64);
    EXPECT_EQ(cudaMemcpy(data.data(), memory_, 64, cudaMemcpyDeviceToHost), cudaSuccess);
    return data;
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  unsigned char* memory_ = nullptr;
};

TEST_F(Graphs, SetsAndCopiesRunInOrder) {
  cudaGraphNode_t set, copy;
  unsigned char source[64], target[64] = {};
  memset(source, 8, sizeof source);
  const cudaMemsetParams params = set_bytes(5, 64);
  RT_OK(cudaGraphAddMemsetNode(&set, graph_, nullptr, 0, &params));
  RT_OK(cudaGraphAddMemcpyNode1D(&copy, graph_, &set, 1, memory_, source, 32,
                                 cudaMemcpyHostToDevice));
  cudaGraphNode_t back;
  RT_OK(cudaGraphAddMemcpyNode1D(&back, graph_, &copy, 1, target, memory_, 64,
                                 cudaMemcpyDeviceToHost));
  run();
  EXPECT_EQ(target[31], 8);
  EXPECT_EQ(target[32], 5);

  cudaMemsetParams got = {};
  RT_OK(cudaGraphMemsetNodeGetParams(set, &got));
  EXPECT_EQ(got.value, 5u);
  EXPECT_EQ(got.dst, memory_);
  cudaMemcpy3DParms copied = {};
  RT_OK(cudaGraphMemcpyNodeGetParams(copy, &copied));
  EXPECT_EQ(copied.kind, cudaMemcpyHostToDevice);
  EXPECT_EQ(copied.extent.width, 32u);
  EXPECT_EQ(copied.srcPtr.ptr, source);

  const cudaMemsetParams other = set_bytes(6, 64);
  RT_OK(cudaGraphExecMemsetNodeSetParams(exec_, set, &other));
  RT_OK(
      cudaGraphExecMemcpyNodeSetParams1D(exec_, copy, memory_, source, 16, cudaMemcpyHostToDevice));
  run();
  EXPECT_EQ(target[15], 8);
  EXPECT_EQ(target[16], 6);
}

TEST_F(Graphs, HostNodesAndChildren) {
  int calls = 0;
  cudaHostNodeParams params = {[](void* data) { ++*static_cast<int*>(data); }, &calls};
  cudaGraph_t child, inside;
  cudaGraphNode_t host, node, empty;
  RT_OK(cudaGraphCreate(&child, 0));
  RT_OK(cudaGraphAddHostNode(&host, child, nullptr, 0, &params));
  RT_OK(cudaGraphAddChildGraphNode(&node, graph_, nullptr, 0, child));
  RT_OK(cudaGraphAddEmptyNode(&empty, graph_, &node, 1));
  RT_OK(cudaGraphAddHostNode(&host, graph_, &empty, 1, &params));
  run();
  EXPECT_EQ(calls, 2);
  RT_OK(cudaGraphChildGraphNodeGetGraph(node, &inside));
  EXPECT_NE(inside, nullptr);
  cudaGraphNodeType type;
  RT_OK(cudaGraphNodeGetType(node, &type));
  EXPECT_EQ(type, cudaGraphNodeTypeGraph);
  RT_OK(cudaGraphDestroy(child));
}

TEST_F(Graphs, Events) {
  cudaEvent_t event, other, got;
  cudaGraphNode_t record, wait;
  RT_OK(cudaEventCreate(&event));
  RT_OK(cudaEventCreate(&other));
  RT_OK(cudaGraphAddEventRecordNode(&record, graph_, nullptr, 0, event));
  RT_OK(cudaGraphAddEventWaitNode(&wait, graph_, &record, 1, event));
  RT_OK(cudaGraphEventRecordNodeGetEvent(record, &got));
  EXPECT_EQ(got, event);
  run();
  RT_OK(cudaEventQuery(event));
  RT_OK(cudaGraphExecEventRecordNodeSetEvent(exec_, record, other));
  RT_OK(cudaGraphEventWaitNodeSetEvent(wait, other));
  RT_OK(cudaGraphEventWaitNodeGetEvent(wait, &got));
  EXPECT_EQ(got, other);
  RT_OK(cudaEventDestroy(event));
  RT_OK(cudaEventDestroy(other));
}

TEST_F(Graphs, MemoryNodes) {
  cudaMemAllocNodeParams params = {};
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location = {cudaMemLocationTypeDevice, 0};
  params.bytesize = 4096;
  cudaGraphNode_t allocate, set, copy, release;
  RT_OK(cudaGraphAddMemAllocNode(&allocate, graph_, nullptr, 0, &params));
  ASSERT_NE(params.dptr, nullptr);
  cudaMemsetParams set_params = set_bytes(7, 64);
  set_params.dst = params.dptr;
  RT_OK(cudaGraphAddMemsetNode(&set, graph_, &allocate, 1, &set_params));
  RT_OK(cudaGraphAddMemcpyNode1D(&copy, graph_, &set, 1, memory_, params.dptr, 64,
                                 cudaMemcpyDeviceToDevice));
  RT_OK(cudaGraphAddMemFreeNode(&release, graph_, &copy, 1, params.dptr));
  void* freed = nullptr;
  RT_OK(cudaGraphMemFreeNodeGetParams(release, &freed));
  EXPECT_EQ(freed, params.dptr);
  run();
  EXPECT_EQ(read()[63], 7);
  RT_OK(cudaDeviceGraphMemTrim(0));
}

TEST_F(Graphs, GeneralNodes) {
  cudaGraphNodeParams set = {}, copy = {};
  set.type = cudaGraphNodeTypeMemset;
  set.memset.dst = memory_;
  set.memset.value = 3;
  set.memset.elementSize = 1;
  set.memset.width = 64;
  set.memset.height = 1;
  unsigned char source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  copy.type = cudaGraphNodeTypeMemcpy;
  copy.memcpy.copyParams.srcPtr = {source, 8, 8, 1};
  copy.memcpy.copyParams.dstPtr = {memory_, 8, 8, 1};
  copy.memcpy.copyParams.extent = {8, 1, 1};
  copy.memcpy.copyParams.kind = cudaMemcpyHostToDevice;
  cudaGraphNode_t first, second;
  RT_OK(cudaGraphAddNode(&first, graph_, nullptr, nullptr, 0, &set));
  RT_OK(cudaGraphAddNode(&second, graph_, &first, nullptr, 1, &copy));
  run();
  EXPECT_EQ(read()[7], 8);
  EXPECT_EQ(read()[8], 3);
  set.memset.value = 4;
  RT_OK(cudaGraphExecNodeSetParams(exec_, first, &set));
  run();
  EXPECT_EQ(read()[8], 4);
}

TEST_F(Graphs, EdgesClonesAndUpdates) {
  cudaGraphNode_t a, b, in_clone;
  const cudaMemsetParams params = set_bytes(1, 64);
  RT_OK(cudaGraphAddMemsetNode(&a, graph_, nullptr, 0, &params));
  RT_OK(cudaGraphAddEmptyNode(&b, graph_, nullptr, 0));
  RT_OK(cudaGraphAddDependencies(graph_, &a, &b, nullptr, 1));
  cudaGraphNode_t from, to, dependency, dependent;
  size_t count = 1;
  RT_OK(cudaGraphGetEdges(graph_, &from, &to, nullptr, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(from, a);
  EXPECT_EQ(to, b);
  RT_OK(cudaGraphNodeGetDependencies(b, &dependency, nullptr, &count));
  EXPECT_EQ(dependency, a);
  RT_OK(cudaGraphNodeGetDependentNodes(a, &dependent, nullptr, &count));
  EXPECT_EQ(dependent, b);
  RT_OK(cudaGraphGetRootNodes(graph_, nullptr, &count));
  EXPECT_EQ(count, 1u);

  cudaGraph_t clone;
  RT_OK(cudaGraphClone(&clone, graph_));
  RT_OK(cudaGraphNodeFindInClone(&in_clone, a, clone));
  const cudaMemsetParams changed = set_bytes(9, 64);
  RT_OK(cudaGraphMemsetNodeSetParams(in_clone, &changed));
  run();
  EXPECT_EQ(read()[0], 1);
  cudaGraphExecUpdateResultInfo info = {};
  RT_OK(cudaGraphExecUpdate(exec_, clone, &info));
  EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
  run();
  EXPECT_EQ(read()[0], 9);
  RT_OK(cudaGraphAddEmptyNode(&in_clone, clone, nullptr, 0));
  EXPECT_EQ(cudaGraphExecUpdate(exec_, clone, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_NE(info.result, cudaGraphExecUpdateSuccess);
  RT_OK(cudaGraphRemoveDependencies(graph_, &a, &b, nullptr, 1));
  RT_OK(cudaGraphDestroyNode(b));
  RT_OK(cudaGraphGetNodes(graph_, nullptr, &count));
  EXPECT_EQ(count, 1u);
  RT_OK(cudaGraphDestroy(clone));
}

TEST_F(Graphs, InstantiateInAllWays) {
  cudaGraphNode_t node;
  const cudaMemsetParams params = set_bytes(2, 64);
  RT_OK(cudaGraphAddMemsetNode(&node, graph_, nullptr, 0, &params));
  cudaGraphExec_t exec;
  RT_OK(cudaGraphInstantiateWithFlags(&exec, graph_, cudaGraphInstantiateFlagUseNodePriority));
  unsigned long long flags = 0;
  RT_OK(cudaGraphExecGetFlags(exec, &flags));
  EXPECT_EQ(flags, static_cast<unsigned long long>(cudaGraphInstantiateFlagUseNodePriority));
  RT_OK(cudaGraphUpload(exec, nullptr));
  RT_OK(cudaGraphExecDestroy(exec));
  cudaGraphInstantiateParams with = {};
  RT_OK(cudaGraphInstantiateWithParams(&exec, graph_, &with));
  EXPECT_EQ(with.result_out, cudaGraphInstantiateSuccess);
  RT_OK(cudaGraphNodeSetEnabled(exec, node, 0));
  unsigned enabled = 1;
  RT_OK(cudaGraphNodeGetEnabled(exec, node, &enabled));
  EXPECT_EQ(enabled, 0u);
  RT_OK(cudaGraphLaunch(exec, nullptr));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(read()[0], 0);
  RT_OK(cudaGraphExecDestroy(exec));
}

TEST_F(Graphs, KeepUserObjects) {
  std::atomic<int> destroyed = 0;
  cudaUserObject_t object;
  RT_OK(cudaUserObjectCreate(
      &object, &destroyed, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, 1,
      cudaUserObjectNoDestructorSync));
  cudaGraph_t holder;
  RT_OK(cudaGraphCreate(&holder, 0));
  RT_OK(cudaGraphRetainUserObject(holder, object, 1, cudaGraphUserObjectMove));
  EXPECT_EQ(destroyed, 0);
  RT_OK(cudaGraphDestroy(holder));
  for (int i = 0; i < 1000 && destroyed == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(destroyed, 1);
}

TEST_F(Graphs, PrintThemselves) {
  cudaGraphNode_t node;
  RT_OK(cudaGraphAddEmptyNode(&node, graph_, nullptr, 0));
  const std::string path = own_folder() + "/runtime_graph.dot";
  RT_OK(cudaGraphDebugDotPrint(graph_, path.c_str(), 0));
  EXPECT_EQ(access(path.c_str(), R_OK), 0);
  unlink(path.c_str());
}

TEST_F(Graphs, RefuseWhatIsWrong) {
  cudaGraphNode_t node;
  EXPECT_EQ(cudaGraphAddKernelNode(&node, graph_, nullptr, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphAddMemcpyNode(&node, graph_, nullptr, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphAddNode(&node, graph_, nullptr, nullptr, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphLaunch(nullptr, nullptr), cudaErrorInvalidValue);
}

}  // namespace
