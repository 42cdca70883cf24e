// Instantiating, launching and updating graphs.
#define __CUDA_API_VERSION_INTERNAL  // declares all versions of functions under their symbols'
                                     // names
#include <cuda.h>

#include "common/entry.h"
#include "cuda/capture.h"
#include "cuda/graph_params.h"
#include "cuda/per_thread.h"

using namespace simgpu;

namespace {

CUresult make(CUgraphExec* out, CUgraph graph, uint64_t flags, InstantiateResult& result) {
  result.result = CUDA_GRAPH_INSTANTIATE_ERROR;
  std::shared_ptr<Exec> exec;
  {
    const std::lock_guard lock(graph_mutex());
    SIMGPU_TRY(check_graph(graph));
    if (!out) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    SIMGPU_TRY(instantiate(graph, flags, exec, result));
  }
  *out = new_exec_handle(std::move(exec));
  return CUDA_SUCCESS;
}

// What needs its own upload stream is only for cuGraphInstantiateWithParams.
CUresult make_without_upload(CUgraphExec* out, CUgraph graph, uint64_t flags) {
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  InstantiateResult result;
  return make(out, graph, flags, result);
}

CUresult make_logged(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                     size_t log_bytes) {
  InstantiateResult result;
  const CUresult error = make(out, graph, 0, result);
  if (error_node) {
    *error_node = error == CUDA_SUCCESS ? nullptr : result.node;
  }
  if (log && log_bytes > 0) {
    log[0] = '\0';
  }
  return error;
}

// Behind what the stream has and behind the launches before; there is nothing to move.
CUresult upload_to(CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<Exec> exec;
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_exec(handle, exec));
  SIMGPU_TRY(find_stream(stream_handle, stream));
  SIMGPU_TRY(forbid_captured(*stream));
  const std::lock_guard lock(exec->mutex);
  return submit(*stream, nullptr, &exec->last, {exec->last});
}

CUresult update_from(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo& info) {
  info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  std::shared_ptr<Exec> exec;
  SIMGPU_TRY(find_exec(handle, exec));
  const std::scoped_lock lock(exec->mutex, graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  if (graph->moved || graph->captures > 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return update(*exec, exec->root, *graph, info);
}

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  SIMGPU_DRIVER_ENTER();
  return make_without_upload(out, graph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  if (!parameters) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  InstantiateResult result;
  const CUresult error = make(out, graph, parameters->flags, result);
  parameters->result_out = result.result;
  parameters->hErrNode_out = result.node;
  if (error == CUDA_SUCCESS && (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)) {
    return upload_to(*out, parameters->hUploadStream);
  }
  return error;
}

CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                            size_t log_bytes) {
  SIMGPU_DRIVER_ENTER();
  return make_logged(out, graph, error_node, log, log_bytes);
}

CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                               size_t log_bytes) {
  SIMGPU_DRIVER_ENTER();
  return make_logged(out, graph, error_node, log, log_bytes);
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Exec> exec;
  SIMGPU_TRY(find_exec(handle, exec));
  if (!flags) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  SIMGPU_CONTEXT_ENTER();
  std::shared_ptr<Exec> exec;
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_exec(handle, exec));
  SIMGPU_TRY(find_stream(stream_handle, stream));
  return launch(exec, *stream);
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return upload_to(handle, stream);
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  SIMGPU_DRIVER_ENTER();
  return destroy_exec(handle);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph,
                              CUgraphExecUpdateResultInfo* info) {
  SIMGPU_DRIVER_ENTER();
  return info ? update_from(handle, graph, *info) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecUpdate(CUgraphExec handle, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* result) {
  SIMGPU_DRIVER_ENTER();
  CUgraphExecUpdateResultInfo info;
  const CUresult error = update_from(handle, graph, info);
  if (error_node) {
    *error_node = info.errorNode;
  }
  if (result) {
    *result = info.result;
  }
  return error;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec handle, CUgraphNode node,
                                  CUgraphNodeParams* parameters) {
  SIMGPU_DRIVER_ENTER();
  if (!parameters) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (parameters->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return set_exec_child(handle, node, parameters->graph.graph);
  }
  if (parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
      parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  NodeContent content;
  SIMGPU_TRY(content_of(*parameters, content));
  return set_exec_node(handle, node, std::move(content));
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec handle, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? kernel_content(*parameters, content) : CUDA_ERROR_INVALID_VALUE);
  return set_exec_node(handle, node, std::move(content));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec handle, CUgraphNode node,
                                        const CUDA_MEMCPY3D* parameters, CUcontext context) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? copy_content(*parameters, context, content) : CUDA_ERROR_INVALID_VALUE);
  return set_exec_node(handle, node, std::move(content));
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec handle, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* parameters,
                                        CUcontext context) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? set_content(*parameters, context, content) : CUDA_ERROR_INVALID_VALUE);
  return set_exec_node(handle, node, std::move(content));
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec handle, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? host_content(*parameters, content) : CUDA_ERROR_INVALID_VALUE);
  return set_exec_node(handle, node, std::move(content));
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec handle, CUgraphNode node, CUgraph child) {
  SIMGPU_DRIVER_ENTER();
  return set_exec_child(handle, node, child);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec handle, CUgraphNode node, CUevent event) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(event_content(event, CU_GRAPH_NODE_TYPE_EVENT_RECORD, content));
  return set_exec_node(handle, node, std::move(content));
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec handle, CUgraphNode node, CUevent event) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(event_content(event, CU_GRAPH_NODE_TYPE_WAIT_EVENT, content));
  return set_exec_node(handle, node, std::move(content));
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec handle, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  SIMGPU_DRIVER_ENTER();
  NodeContent content;
  SIMGPU_TRY(parameters ? memop_content(*parameters, content) : CUDA_ERROR_INVALID_VALUE);
  return set_exec_node(handle, node, std::move(content));
}

CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node, unsigned enabled) {
  SIMGPU_DRIVER_ENTER();
  return set_exec_enabled(handle, node, enabled != 0);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode node, unsigned* enabled) {
  SIMGPU_DRIVER_ENTER();
  bool value = false;
  SIMGPU_TRY(enabled ? get_exec_enabled(handle, node, value) : CUDA_ERROR_INVALID_VALUE);
  *enabled = value;
  return CUDA_SUCCESS;
}

SIMGPU_PER_THREAD(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz);
SIMGPU_PER_THREAD(cuGraphLaunch, cuGraphLaunch_ptsz);
SIMGPU_PER_THREAD(cuGraphUpload, cuGraphUpload_ptsz);
