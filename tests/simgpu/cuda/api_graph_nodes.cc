// Adding nodes.
#define __CUDA_API_VERSION_INTERNAL  // declares all versions of functions under their symbols'
                                     // names
#include <cuda.h>

#include "common/entry.h"
#include "cuda/graph_params.h"

using namespace simgpu;

namespace {

CUDA_KERNEL_NODE_PARAMS current(const CUDA_KERNEL_NODE_PARAMS_v1& old) {
  return {old.func,         old.gridDimX,   old.gridDimY,       old.gridDimZ,     old.blockDimX,
          old.blockDimY,    old.blockDimZ,  old.sharedMemBytes, old.kernelParams, old.extra,
          /*kern=*/nullptr, /*ctx=*/nullptr};
}

// `nodes` may be null only if there are none.
CUresult add(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count,
             NodeContent content) {
  return create_node(out, graph, plain_edges(nodes, count), std::move(content));
}

CUresult add_any(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                 const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* parameters) {
  if (!parameters || (count > 0 && !nodes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::vector<Edge> edges = edges_with_data(nodes, data, count);
  if (parameters->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    SIMGPU_TRY(
        create_child_node(out, graph, edges, parameters->graph.graph, parameters->graph.ownership));
    // The handle of the graph that the node now owns.
    const std::lock_guard lock(graph_mutex());
    parameters->graph.graph = (*out)->content.child;
    return CUDA_SUCCESS;
  }
  NodeContent content;
  content.type = parameters->type;
  SIMGPU_TRY(content_of(*parameters, content));
  return create_node(out, graph, edges, std::move(content));
}

}  // namespace

CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? kernel_content(*parameters, content) : CUDA_ERROR_INVALID_VALUE);
  return add(out, graph, nodes, count, std::move(content));
}

CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? kernel_content(current(*parameters), content) : CUDA_ERROR_INVALID_VALUE);
  return add(out, graph, nodes, count, std::move(content));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                              size_t count, const CUDA_MEMCPY3D* parameters, CUcontext context) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? copy_content(*parameters, context, content) : CUDA_ERROR_INVALID_VALUE);
  return add(out, graph, nodes, count, std::move(content));
}

CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* parameters,
                              CUcontext context) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? set_content(*parameters, context, content) : CUDA_ERROR_INVALID_VALUE);
  return add(out, graph, nodes, count, std::move(content));
}

CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count,
                            const CUDA_HOST_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? host_content(*parameters, content) : CUDA_ERROR_INVALID_VALUE);
  return add(out, graph, nodes, count, std::move(content));
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                                  size_t count, CUgraph child) {
  SIMGPU_DRIVER_ENTER();
  return create_child_node(out, graph, plain_edges(nodes, count), child,
                           CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE);
}

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                             size_t count) {
  SIMGPU_DRIVER_ENTER();
  return add(out, graph, nodes, count, NodeContent{});
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                                   size_t count, CUevent event) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(event_content(event, CU_GRAPH_NODE_TYPE_EVENT_RECORD, content));
  return add(out, graph, nodes, count, std::move(content));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                                 size_t count, CUevent event) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(event_content(event, CU_GRAPH_NODE_TYPE_WAIT_EVENT, content));
  return add(out, graph, nodes, count, std::move(content));
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                                  size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? memop_content(*parameters, content) : CUDA_ERROR_INVALID_VALUE);
  return add(out, graph, nodes, count, std::move(content));
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? alloc_content(*parameters, content) : CUDA_ERROR_INVALID_VALUE);
  return add(out, graph, nodes, count, std::move(content));
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                               size_t count, CUdeviceptr address) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(free_content(address, content));
  return add(out, graph, nodes, count, std::move(content));
}

CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes,
                           const CUgraphEdgeData* data, size_t count,
                           CUgraphNodeParams* parameters) {
  SIMGPU_DRIVER_ENTER();
  return add_any(out, graph, nodes, data, count, parameters);
}

CUresult cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count,
                        CUgraphNodeParams* parameters) {
  SIMGPU_DRIVER_ENTER();
  return add_any(out, graph, nodes, nullptr, count, parameters);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec handle, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? kernel_content(current(*parameters), content) : CUDA_ERROR_INVALID_VALUE);
  return set_exec_node(handle, node, std::move(content));
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node,
                                    const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? kernel_content(current(*parameters), content) : CUDA_ERROR_INVALID_VALUE);
  return set_node(node, std::move(content));
}
