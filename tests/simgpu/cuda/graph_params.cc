#include "cuda/graph_params.h"

#include <algorithm>

#include "cuda/copy.h"
#include "cuda/graph_memory.h"
#include "cuda/launch.h"
#include "cuda/stream_work.h"

namespace simgpu {
namespace {

// Frees of one address: once in a graph.
bool freed_in(const CUgraph_st& graph, CUdeviceptr address) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](CUgraphNode node) {
    CUdeviceptr other = 0;
    return node->content.type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
           free_address_of(*node->content.work, other) && other == address;
  });
}

CUresult find_exec_node(Exec& exec, CUgraphNode node, ExecNode*& out) {
  {
    const std::lock_guard lock(graph_mutex());
    SIMGPU_TRY(check_node(node));
  }
  const auto found = exec.by_id.find(node->id);
  if (found == exec.by_id.end()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  out = found->second;
  return CUDA_SUCCESS;
}

bool can_be_disabled(const ExecNode& node) {
  return node.content.type == CU_GRAPH_NODE_TYPE_KERNEL ||
         node.content.type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         node.content.type == CU_GRAPH_NODE_TYPE_MEMSET;
}

// A memory node's address is part of its graph, so neither it nor a child graph can be replaced.
bool is_fixed(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
         type == CU_GRAPH_NODE_TYPE_GRAPH;
}

// Single nodes are held to more than whole updates are: copies must be linear.
bool is_linear(const NodeContent& content) {
  CUDA_MEMCPY3D copy;
  return !content.work || !copy_params_of(*content.work, copy) ||
         (copy.Height <= 1 && copy.Depth <= 1);
}

}  // namespace

CUresult kernel_content(const CUDA_KERNEL_NODE_PARAMS& parameters, NodeContent& content) {
  content.type = CU_GRAPH_NODE_TYPE_KERNEL;
  return make_kernel_work(parameters, content.work);
}

CUresult copy_content(const CUDA_MEMCPY3D& parameters, CUcontext context, NodeContent& content) {
  content.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  content.context = context;
  return make_copy_work(parameters, content.work);
}

CUresult set_content(const CUDA_MEMSET_NODE_PARAMS& parameters, CUcontext context,
                     NodeContent& content) {
  content.type = CU_GRAPH_NODE_TYPE_MEMSET;
  content.context = context;
  return make_set_work(parameters, content.work);
}

CUresult host_content(const CUDA_HOST_NODE_PARAMS& parameters, NodeContent& content) {
  content.type = CU_GRAPH_NODE_TYPE_HOST;
  return make_host_work(parameters, content.work);
}

CUresult event_content(CUevent event, CUgraphNodeType type, NodeContent& content) {
  content.type = type;
  content.event_handle = event;
  return find_event(event, content.event) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult memop_content(const CUDA_BATCH_MEM_OP_NODE_PARAMS& parameters, NodeContent& content) {
  content.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  content.context = parameters.ctx;
  content.flags = parameters.flags;
  return make_memop_work(parameters.paramArray, parameters.count, content.work);
}

CUresult alloc_content(CUDA_MEM_ALLOC_NODE_PARAMS& parameters, NodeContent& content) {
  content.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  return make_alloc_work(parameters, content.work);
}

CUresult free_content(CUdeviceptr address, NodeContent& content) {
  content.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  return make_free_work(address, content.work);
}

CUresult content_of(CUgraphNodeParams& parameters, NodeContent& content) {
  const auto& memop = parameters.memOp;
  const auto& set = parameters.memset;
  const auto& kernel = parameters.kernel;
  switch (parameters.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_content(
          {kernel.func, kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ, kernel.blockDimX,
           kernel.blockDimY, kernel.blockDimZ, kernel.sharedMemBytes, kernel.kernelParams,
           kernel.extra, kernel.kern, kernel.ctx},
          content);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_content(parameters.memcpy.copyParams, parameters.memcpy.copyCtx, content);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return set_content({set.dst, set.pitch, set.value, set.elementSize, set.width, set.height},
                         set.ctx, content);
    case CU_GRAPH_NODE_TYPE_HOST:
      return host_content({parameters.host.fn, parameters.host.userData}, content);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return event_content(parameters.eventWait.event, parameters.type, content);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return event_content(parameters.eventRecord.event, parameters.type, content);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      auto& alloc = parameters.alloc;
      CUDA_MEM_ALLOC_NODE_PARAMS old = {alloc.poolProps, alloc.accessDescs, alloc.accessDescCount,
                                        alloc.bytesize, 0};
      SIMGPU_TRY(alloc_content(old, content));
      alloc.dptr = old.dptr;
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return free_content(parameters.free.dptr, content);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return memop_content({memop.ctx, memop.count, memop.paramArray, memop.flags}, content);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return static_cast<CUresult>(simgpu_unsupported(
          "a graph node for a condition or an external semaphore", CUDA_ERROR_NOT_SUPPORTED));
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult create_node(CUgraphNode* out, CUgraph graph, const std::vector<Edge>& dependencies,
                     NodeContent content) {
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  CUdeviceptr address = 0;
  if (content.type == CU_GRAPH_NODE_TYPE_MEM_FREE && free_address_of(*content.work, address) &&
      freed_in(*graph, address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return add_node(graph, dependencies, std::move(content), *out);
}

CUresult create_child_node(CUgraphNode* out, CUgraph graph, const std::vector<Edge>& dependencies,
                           CUgraph child, CUgraphChildGraphNodeOwnership ownership) {
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Garbage garbage;  // dropped after the lock
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  SIMGPU_TRY(check_graph(child));
  const bool move = ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  if (move && (child == graph || child->owner || child->captures > 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  NodeContent content;
  content.type = CU_GRAPH_NODE_TYPE_GRAPH;
  content.child = child;
  if (!move) {
    SIMGPU_TRY(clone_graph(*child, content.child));
  }
  CUgraph mine = content.child;
  const CUresult result = add_node(graph, dependencies, std::move(content), *out);
  if (result == CUDA_SUCCESS) {
    mine->moved = move;
  } else if (!move) {
    destroy_graph(mine, garbage);
  }
  return result;
}

CUresult set_node(CUgraphNode node, NodeContent content) {
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_node(node));
  if (node->content.type != content.type) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (is_fixed(content.type)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  content.attributes.swap(node->content.attributes);
  std::swap(node->content, content);
  return CUDA_SUCCESS;
}

CUresult content_of_node(CUgraphNode node, CUgraphNodeType type, NodeContent& content) {
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_node(node));
  if (node->content.type != type) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  content = node->content;
  return CUDA_SUCCESS;
}

CUresult set_exec_node(CUgraphExec handle, CUgraphNode node, NodeContent content) {
  std::shared_ptr<Exec> exec;
  SIMGPU_TRY(find_exec(handle, exec));
  const std::lock_guard lock(exec->mutex);
  ExecNode* mine = nullptr;
  SIMGPU_TRY(find_exec_node(*exec, node, mine));
  if (mine->content.type == content.type && is_fixed(content.type)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  content.attributes = mine->content.attributes;
  if (mine->content.type != content.type || !is_linear(mine->content) || !is_linear(content) ||
      check_update(mine->content, content, exec->flags) != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  mine->content = std::move(content);
  exec->stale = true;
  return CUDA_SUCCESS;
}

CUresult set_exec_child(CUgraphExec handle, CUgraphNode node, CUgraph child) {
  std::shared_ptr<Exec> exec;
  SIMGPU_TRY(find_exec(handle, exec));
  const std::lock_guard lock(exec->mutex);
  ExecNode* mine = nullptr;
  SIMGPU_TRY(find_exec_node(*exec, node, mine));
  const std::lock_guard graph_lock(graph_mutex());
  SIMGPU_TRY(check_graph(child));
  CUgraphExecUpdateResultInfo info = {};
  if (!mine->child || update(*exec, *mine->child, *child, info) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult set_exec_enabled(CUgraphExec handle, CUgraphNode node, bool enabled) {
  std::shared_ptr<Exec> exec;
  SIMGPU_TRY(find_exec(handle, exec));
  const std::lock_guard lock(exec->mutex);
  ExecNode* mine = nullptr;
  SIMGPU_TRY(find_exec_node(*exec, node, mine));
  if (!can_be_disabled(*mine)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  mine->enabled = enabled;
  exec->stale = true;
  return CUDA_SUCCESS;
}

CUresult get_exec_enabled(CUgraphExec handle, CUgraphNode node, bool& enabled) {
  std::shared_ptr<Exec> exec;
  SIMGPU_TRY(find_exec(handle, exec));
  const std::lock_guard lock(exec->mutex);
  ExecNode* mine = nullptr;
  SIMGPU_TRY(find_exec_node(*exec, node, mine));
  if (!can_be_disabled(*mine)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  enabled = mine->enabled;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
