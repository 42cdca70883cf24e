// run: devices=1
// A graph that is built node by node (set, copy, kernel, host function), then changed: the
// parameters of a node of the executable graph, and the whole by an update from another graph.
#include <cuda_runtime.h>
#include <simgpu.h>

#include "common/buffer.h"

__global__ void multiply(const int* in, int* out, int count, int factor) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    out[i] = in[i] * factor;
  }
}

constexpr int kCount = 1024;
constexpr size_t kBytes = kCount * sizeof(int);

struct Buffers {
  int* host_in;
  int* host_out;
  int* in;
  int* out;
  int reached = 0;
};

struct Nodes {
  cudaGraph_t graph;
  cudaGraphNode_t set, copy_in, kernel, copy_out, notify;
};

// The arguments live for as long as the object: nodes copy them when they are added or changed.
class Multiply {
 public:
  Multiply(const Buffers& buffers, int factor)
      : in_(buffers.in), out_(buffers.out), factor_(factor) {
    params_.func = reinterpret_cast<void*>(multiply);
    params_.gridDim = dim3(kCount / 256);
    params_.blockDim = dim3(256);
    params_.kernelParams = arguments_;
  }
  const cudaKernelNodeParams* params() const { return &params_; }

 private:
  const int* in_;
  int* out_;
  int count_ = kCount;
  int factor_;
  void* arguments_[4] = {&in_, &out_, &count_, &factor_};
  cudaKernelNodeParams params_{};
};

// set out to -1 | copy in  ->  out = in * factor  ->  copy out  ->  count one on the host
Nodes build(Buffers& buffers, int factor) {
  Nodes nodes{};
  CUDA_CHECK(cudaGraphCreate(&nodes.graph, 0));
  cudaMemsetParams set{};
  set.dst = buffers.out;
  set.value = 0xff;
  set.elementSize = 1;
  set.width = kBytes;
  set.height = 1;
  CUDA_CHECK(cudaGraphAddMemsetNode(&nodes.set, nodes.graph, nullptr, 0, &set));
  CUDA_CHECK(cudaGraphAddMemcpyNode1D(&nodes.copy_in, nodes.graph, nullptr, 0, buffers.in,
                                      buffers.host_in, kBytes, cudaMemcpyHostToDevice));
  const cudaGraphNode_t before_kernel[] = {nodes.set, nodes.copy_in};
  const Multiply kernel(buffers, factor);
  CUDA_CHECK(cudaGraphAddKernelNode(&nodes.kernel, nodes.graph, before_kernel, 2, kernel.params()));
  CUDA_CHECK(cudaGraphAddMemcpyNode1D(&nodes.copy_out, nodes.graph, &nodes.kernel, 1,
                                      buffers.host_out, buffers.out, kBytes,
                                      cudaMemcpyDeviceToHost));
  cudaHostNodeParams notify{};
  notify.fn = [](void* reached) { ++*static_cast<int*>(reached); };
  notify.userData = &buffers.reached;
  CUDA_CHECK(cudaGraphAddHostNode(&nodes.notify, nodes.graph, nullptr, 0, &notify));
  CUDA_CHECK(cudaGraphAddDependencies(nodes.graph, &nodes.copy_out, &nodes.notify, nullptr, 1));
  return nodes;
}

void check_shape(const Nodes& nodes) {
  size_t count = 0, edges = 0, roots = 0;
  CUDA_CHECK(cudaGraphGetNodes(nodes.graph, nullptr, &count));
  CUDA_CHECK(cudaGraphGetEdges(nodes.graph, nullptr, nullptr, nullptr, &edges));
  CUDA_CHECK(cudaGraphGetRootNodes(nodes.graph, nullptr, &roots));
  CHECK(count == 5 && edges == 4 && roots == 2, "%zu nodes, %zu edges, %zu roots", count, edges,
        roots);
  cudaGraphNodeType type;
  CUDA_CHECK(cudaGraphNodeGetType(nodes.notify, &type));
  CHECK(type == cudaGraphNodeTypeHost, "the host node has type %d", type);
  cudaKernelNodeParams params{};
  CUDA_CHECK(cudaGraphKernelNodeGetParams(nodes.kernel, &params));
  CHECK(params.gridDim.x == kCount / 256 && params.blockDim.x == 256, "a kernel node of %u x %u",
        params.gridDim.x, params.blockDim.x);
}

void launch_and_check(cudaGraphExec_t exec, cudaStream_t stream, const Buffers& buffers,
                      int factor) {
  CUDA_CHECK(cudaGraphLaunch(exec, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  check_values("factor " + std::to_string(factor), buffers.host_out, kCount,
               [&](size_t i) { return static_cast<int>(i) * factor; });
}

void run(Buffers& buffers) {
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreate(&stream));
  const Nodes nodes = build(buffers, 3);
  check_shape(nodes);
  cudaGraphExec_t exec;
  CUDA_CHECK(cudaGraphInstantiate(&exec, nodes.graph, 0));
  launch_and_check(exec, stream, buffers, 3);

  const Multiply changed(buffers, 5);
  CUDA_CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes.kernel, changed.params()));
  launch_and_check(exec, stream, buffers, 5);

  // Same shape, other parameters: the executable graph takes them over.
  const Nodes other = build(buffers, 7);
  cudaGraphExecUpdateResultInfo info{};
  CUDA_CHECK(cudaGraphExecUpdate(exec, other.graph, &info));
  CHECK(info.result == cudaGraphExecUpdateSuccess, "the update says %d", info.result);
  launch_and_check(exec, stream, buffers, 7);

  // One node less: it must be instantiated anew, and stays what it was.
  CUDA_CHECK(cudaGraphDestroyNode(other.notify));
  CUDA_EXPECT(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, other.graph, &info));
  CHECK(info.result != cudaGraphExecUpdateSuccess, "the update says success");
  cudaGetLastError();
  launch_and_check(exec, stream, buffers, 7);
  CHECK(buffers.reached == 4, "the host function ran %d times", buffers.reached);

  CUDA_CHECK(cudaGraphExecDestroy(exec));
  CUDA_CHECK(cudaGraphDestroy(other.graph));
  CUDA_CHECK(cudaGraphDestroy(nodes.graph));
  CUDA_CHECK(cudaStreamDestroy(stream));
}

int main() {
  simgpu::kernel(
      "multiply", +[](simgpu::Grid, const int* in, int* out, int count, int factor) {
        for (int i = 0; i < count; ++i) {
          out[i] = in[i] * factor;
        }
      });
  Buffers buffers{};
  CUDA_CHECK(cudaMallocHost(&buffers.host_in, kBytes));
  CUDA_CHECK(cudaMallocHost(&buffers.host_out, kBytes));
  for (int i = 0; i < kCount; ++i) {
    buffers.host_in[i] = i;
  }
  const DeviceBuffer<int> in(kCount), out(kCount);
  buffers.in = in.data();
  buffers.out = out.data();
  run(buffers);
  CUDA_CHECK(cudaFreeHost(buffers.host_in));
  CUDA_CHECK(cudaFreeHost(buffers.host_out));
  printf("graph_nodes: %d launches\n", buffers.reached);
  return 0;
}
