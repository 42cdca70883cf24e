// Nodes of graphs, by kind: adding, asking, changing.
#include "cudart/api.h"
#include "cudart/convert.h"
#include "cudart/graph_params.h"

namespace simgpu::cudart {

SIMGPU_RT(context, cudaGraphAddKernelNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, const cudaKernelNodeParams* params),
          (node, graph, dependencies, count, params)) {
  CUDA_KERNEL_NODE_PARAMS kernel;
  SIMGPU_TRY(driver_params(params, kernel));
  return g_driver.cuGraphAddKernelNode(node, graph, dependencies, count, &kernel);
}

SIMGPU_RT(context, cudaGraphKernelNodeGetParams,
          (cudaGraphNode_t node, cudaKernelNodeParams* params), (node, params)) {
  if (!params) {
    return cudaErrorInvalidValue;
  }
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  SIMGPU_TRY(g_driver.cuGraphKernelNodeGetParams(node, &kernel));
  *params = runtime_params(kernel);
  return cudaSuccess;
}

SIMGPU_RT(context, cudaGraphKernelNodeSetParams,
          (cudaGraphNode_t node, const cudaKernelNodeParams* params), (node, params)) {
  CUDA_KERNEL_NODE_PARAMS kernel;
  SIMGPU_TRY(driver_params(params, kernel));
  return g_driver.cuGraphKernelNodeSetParams(node, &kernel);
}

SIMGPU_RT(context, cudaGraphExecKernelNodeSetParams,
          (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams* params),
          (exec, node, params)) {
  CUDA_KERNEL_NODE_PARAMS kernel;
  SIMGPU_TRY(driver_params(params, kernel));
  return g_driver.cuGraphExecKernelNodeSetParams(exec, node, &kernel);
}

SIMGPU_RT(context, cudaGraphKernelNodeCopyAttributes,
          (cudaGraphNode_t target, cudaGraphNode_t source), (target, source)) {
  return g_driver.cuGraphKernelNodeCopyAttributes(target, source);
}

SIMGPU_RT(context, cudaGraphKernelNodeGetAttribute,
          (cudaGraphNode_t node, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue* value),
          (node, attribute, value)) {
  return g_driver.cuGraphKernelNodeGetAttribute(node, static_cast<CUkernelNodeAttrID>(attribute),
                                                reinterpret_cast<CUkernelNodeAttrValue*>(value));
}

SIMGPU_RT(context, cudaGraphKernelNodeSetAttribute,
          (cudaGraphNode_t node, cudaLaunchAttributeID attribute,
           const cudaLaunchAttributeValue* value),
          (node, attribute, value)) {
  return g_driver.cuGraphKernelNodeSetAttribute(
      node, static_cast<CUkernelNodeAttrID>(attribute),
      reinterpret_cast<const CUkernelNodeAttrValue*>(value));
}

static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS_v1));

SIMGPU_RT(context, cudaGraphAddMemsetNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, const cudaMemsetParams* params),
          (node, graph, dependencies, count, params)) {
  CUcontext context = nullptr;
  SIMGPU_TRY(current_context(context));
  return g_driver.cuGraphAddMemsetNode(node, graph, dependencies, count,
                                       reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS_v1*>(params),
                                       context);
}

SIMGPU_RT(context, cudaGraphMemsetNodeGetParams, (cudaGraphNode_t node, cudaMemsetParams* params),
          (node, params)) {
  return g_driver.cuGraphMemsetNodeGetParams(node,
                                             reinterpret_cast<CUDA_MEMSET_NODE_PARAMS_v1*>(params));
}

SIMGPU_RT(context, cudaGraphMemsetNodeSetParams,
          (cudaGraphNode_t node, const cudaMemsetParams* params), (node, params)) {
  return g_driver.cuGraphMemsetNodeSetParams(
      node, reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS_v1*>(params));
}

SIMGPU_RT(context, cudaGraphExecMemsetNodeSetParams,
          (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemsetParams* params),
          (exec, node, params)) {
  CUcontext context = nullptr;
  SIMGPU_TRY(current_context(context));
  return g_driver.cuGraphExecMemsetNodeSetParams(
      exec, node, reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS_v1*>(params), context);
}

static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS_v1));

SIMGPU_RT(context, cudaGraphAddHostNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, const cudaHostNodeParams* params),
          (node, graph, dependencies, count, params)) {
  return g_driver.cuGraphAddHostNode(node, graph, dependencies, count,
                                     reinterpret_cast<const CUDA_HOST_NODE_PARAMS_v1*>(params));
}

SIMGPU_RT(context, cudaGraphHostNodeGetParams, (cudaGraphNode_t node, cudaHostNodeParams* params),
          (node, params)) {
  return g_driver.cuGraphHostNodeGetParams(node,
                                           reinterpret_cast<CUDA_HOST_NODE_PARAMS_v1*>(params));
}

SIMGPU_RT(context, cudaGraphHostNodeSetParams,
          (cudaGraphNode_t node, const cudaHostNodeParams* params), (node, params)) {
  return g_driver.cuGraphHostNodeSetParams(
      node, reinterpret_cast<const CUDA_HOST_NODE_PARAMS_v1*>(params));
}

SIMGPU_RT(context, cudaGraphExecHostNodeSetParams,
          (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaHostNodeParams* params),
          (exec, node, params)) {
  return g_driver.cuGraphExecHostNodeSetParams(
      exec, node, reinterpret_cast<const CUDA_HOST_NODE_PARAMS_v1*>(params));
}

SIMGPU_RT(context, cudaGraphAddChildGraphNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, cudaGraph_t child),
          (node, graph, dependencies, count, child)) {
  return g_driver.cuGraphAddChildGraphNode(node, graph, dependencies, count, child);
}

SIMGPU_RT(context, cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t* graph),
          (node, graph)) {
  return g_driver.cuGraphChildGraphNodeGetGraph(node, graph);
}

SIMGPU_RT(context, cudaGraphExecChildGraphNodeSetParams,
          (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child), (exec, node, child)) {
  return g_driver.cuGraphExecChildGraphNodeSetParams(exec, node, child);
}

SIMGPU_RT(context, cudaGraphAddEmptyNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count),
          (node, graph, dependencies, count)) {
  return g_driver.cuGraphAddEmptyNode(node, graph, dependencies, count);
}

SIMGPU_RT(context, cudaGraphAddEventRecordNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, cudaEvent_t event),
          (node, graph, dependencies, count, event)) {
  return g_driver.cuGraphAddEventRecordNode(node, graph, dependencies, count, event);
}

SIMGPU_RT(context, cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event),
          (node, event)) {
  return g_driver.cuGraphEventRecordNodeGetEvent(node, event);
}

SIMGPU_RT(context, cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
          (node, event)) {
  return g_driver.cuGraphEventRecordNodeSetEvent(node, event);
}

SIMGPU_RT(context, cudaGraphExecEventRecordNodeSetEvent,
          (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event), (exec, node, event)) {
  return g_driver.cuGraphExecEventRecordNodeSetEvent(exec, node, event);
}

SIMGPU_RT(context, cudaGraphAddEventWaitNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, cudaEvent_t event),
          (node, graph, dependencies, count, event)) {
  return g_driver.cuGraphAddEventWaitNode(node, graph, dependencies, count, event);
}

SIMGPU_RT(context, cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event),
          (node, event)) {
  return g_driver.cuGraphEventWaitNodeGetEvent(node, event);
}

SIMGPU_RT(context, cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
          (node, event)) {
  return g_driver.cuGraphEventWaitNodeSetEvent(node, event);
}

SIMGPU_RT(context, cudaGraphExecEventWaitNodeSetEvent,
          (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event), (exec, node, event)) {
  return g_driver.cuGraphExecEventWaitNodeSetEvent(exec, node, event);
}

static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v1));

SIMGPU_RT(context, cudaGraphAddMemAllocNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, cudaMemAllocNodeParams* params),
          (node, graph, dependencies, count, params)) {
  return g_driver.cuGraphAddMemAllocNode(node, graph, dependencies, count,
                                         reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS_v1*>(params));
}

SIMGPU_RT(context, cudaGraphMemAllocNodeGetParams,
          (cudaGraphNode_t node, cudaMemAllocNodeParams* params), (node, params)) {
  return g_driver.cuGraphMemAllocNodeGetParams(
      node, reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS_v1*>(params));
}

SIMGPU_RT(context, cudaGraphAddMemFreeNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, void* memory),
          (node, graph, dependencies, count, memory)) {
  return g_driver.cuGraphAddMemFreeNode(node, graph, dependencies, count, address(memory));
}

SIMGPU_RT(context, cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void* memory),
          (node, memory)) {
  return g_driver.cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(memory));
}

SIMGPU_RT(context, cudaGraphAddNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* params),
          (node, graph, dependencies, edges, count, params)) {
  CUgraphNodeParams general;
  SIMGPU_TRY(driver_params(params, general));
  SIMGPU_TRY(g_driver.cuGraphAddNode(
      node, graph, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges), count, &general));
  return_results(general, *params);
  return cudaSuccess;
}

SIMGPU_RT(context, cudaGraphNodeSetParams, (cudaGraphNode_t node, cudaGraphNodeParams* params),
          (node, params)) {
  CUgraphNodeParams general;
  SIMGPU_TRY(driver_params(params, general));
  return g_driver.cuGraphNodeSetParams(node, &general);
}

SIMGPU_RT(context, cudaGraphExecNodeSetParams,
          (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeParams* params),
          (exec, node, params)) {
  CUgraphNodeParams general;
  SIMGPU_TRY(driver_params(params, general));
  return g_driver.cuGraphExecNodeSetParams(exec, node, &general);
}

SIMGPU_RT(context, cudaGraphConditionalHandleCreate,
          (cudaGraphConditionalHandle * handle, cudaGraph_t graph, unsigned value, unsigned flags),
          (handle, graph, value, flags)) {
  CUcontext context = nullptr;
  SIMGPU_TRY(current_context(context));
  CUgraphConditionalHandle created = 0;
  SIMGPU_TRY(g_driver.cuGraphConditionalHandleCreate(&created, graph, context, value, flags));
  *handle = created;
  return cudaSuccess;
}

}  // namespace simgpu::cudart
