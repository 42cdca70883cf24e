// Reading and changing the parameters of nodes.
#define __CUDA_API_VERSION_INTERNAL  // declares all versions of functions under their symbols'
                                     // names
#include <cuda.h>

#include <cstring>

#include "common/entry.h"
#include "cuda/copy.h"
#include "cuda/graph_memory.h"
#include "cuda/graph_params.h"
#include "cuda/launch.h"
#include "cuda/stream_work.h"

using namespace simgpu;

namespace {

// Reads a node of one kind by the accessor of its work.
template <class Parameters>
CUresult get(CUgraphNode node, CUgraphNodeType type, bool (*accessor)(const Work&, Parameters&),
             Parameters* out) {
  NodeContent content;
  SIMGPU_TRY(content_of_node(node, type, content));
  if (!out || !content.work || !accessor(*content.work, *out)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult get_event(CUgraphNode node, CUgraphNodeType type, CUevent* out) {
  NodeContent content;
  SIMGPU_TRY(content_of_node(node, type, content));
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = content.event_handle;
  return CUDA_SUCCESS;
}

CUresult set_event(CUgraphNode node, CUgraphNodeType type, CUevent event) {
  NodeContent content;
  SIMGPU_TRY(event_content(event, type, content));
  return set_node(node, std::move(content));
}

CUresult check_kernel(CUgraphNode node) {
  SIMGPU_TRY(check_node(node));
  return node->content.type == CU_GRAPH_NODE_TYPE_KERNEL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool is_node_attribute(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out) {
  SIMGPU_DRIVER_ENTER();
  return get(node, CU_GRAPH_NODE_TYPE_KERNEL, kernel_params_of, out);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  SIMGPU_DRIVER_ENTER();
  CUDA_KERNEL_NODE_PARAMS current = {};
  SIMGPU_TRY(get(node, CU_GRAPH_NODE_TYPE_KERNEL, kernel_params_of, &current));
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = {current.func,         current.gridDimX,  current.gridDimY,  current.gridDimZ,
          current.blockDimX,    current.blockDimY, current.blockDimZ, current.sharedMemBytes,
          current.kernelParams, current.extra};
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                       const CUDA_KERNEL_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? kernel_content(*parameters, content) : CUDA_ERROR_INVALID_VALUE);
  return set_node(node, std::move(content));
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* out) {
  SIMGPU_DRIVER_ENTER();
  return get(node, CU_GRAPH_NODE_TYPE_MEMCPY, copy_params_of, out);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? copy_content(*parameters, nullptr, content) : CUDA_ERROR_INVALID_VALUE);
  return set_node(node, std::move(content));
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out) {
  SIMGPU_DRIVER_ENTER();
  return get(node, CU_GRAPH_NODE_TYPE_MEMSET, set_params_of, out);
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? set_content(*parameters, nullptr, content) : CUDA_ERROR_INVALID_VALUE);
  return set_node(node, std::move(content));
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* out) {
  SIMGPU_DRIVER_ENTER();
  return get(node, CU_GRAPH_NODE_TYPE_HOST, host_params_of, out);
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? host_content(*parameters, content) : CUDA_ERROR_INVALID_VALUE);
  return set_node(node, std::move(content));
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(content_of_node(node, CU_GRAPH_NODE_TYPE_GRAPH, content));
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = content.child;
  return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  SIMGPU_DRIVER_ENTER();
  return get_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, out);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  SIMGPU_DRIVER_ENTER();
  return set_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  SIMGPU_DRIVER_ENTER();
  return get_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, out);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  SIMGPU_DRIVER_ENTER();
  return set_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

// The array is the node's own, as kernelParams and the like are.
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* out) {
  SIMGPU_DRIVER_ENTER();
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_node(node));
  NodeContent& content = node->content;
  if (!out || content.type != CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  content.memops = memops_of(*content.work);
  *out = {content.context, static_cast<unsigned>(content.memops.size()), content.memops.data(),
          content.flags};
  return CUDA_SUCCESS;
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? memop_content(*parameters, content) : CUDA_ERROR_INVALID_VALUE);
  return set_node(node, std::move(content));
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  SIMGPU_DRIVER_ENTER();
  return get(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, alloc_params_of, out);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* out) {
  SIMGPU_DRIVER_ENTER();
  return get(node, CU_GRAPH_NODE_TYPE_MEM_FREE, free_address_of, out);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* parameters) {
  SIMGPU_DRIVER_ENTER();
  if (!parameters) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
      parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
      parameters->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  NodeContent content;
  content.type = parameters->type;
  SIMGPU_TRY(content_of(*parameters, content));
  return set_node(node, std::move(content));
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       const CUkernelNodeAttrValue* value) {
  SIMGPU_DRIVER_ENTER();
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_kernel(node));
  if (!value || !is_node_attribute(id)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  node->content.attributes[id] = *value;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       CUkernelNodeAttrValue* value) {
  SIMGPU_DRIVER_ENTER();
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_kernel(node));
  if (!value || !is_node_attribute(id)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto found = node->content.attributes.find(id);
  if (found != node->content.attributes.end()) {
    *value = found->second;
  } else {
    memset(value, 0, sizeof *value);
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  SIMGPU_DRIVER_ENTER();
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_kernel(to));
  SIMGPU_TRY(check_kernel(from));
  to->content.attributes = from->content.attributes;
  return CUDA_SUCCESS;
}
