// Graphs as a whole: building, instantiating, updating, launching.  Handles are the driver's.
#include "cudart/api.h"

namespace simgpu::cudart {

SIMGPU_RT(context, cudaGraphCreate, (cudaGraph_t * graph, unsigned flags), (graph, flags)) {
  return g_driver.cuGraphCreate(graph, flags);
}

SIMGPU_RT(context, cudaGraphDestroy, (cudaGraph_t graph), (graph)) {
  return g_driver.cuGraphDestroy(graph);
}

SIMGPU_RT(context, cudaGraphClone, (cudaGraph_t * clone, cudaGraph_t original), (clone, original)) {
  return g_driver.cuGraphClone(clone, original);
}

SIMGPU_RT(context, cudaGraphNodeFindInClone,
          (cudaGraphNode_t * node, cudaGraphNode_t original, cudaGraph_t clone),
          (node, original, clone)) {
  return g_driver.cuGraphNodeFindInClone(node, original, clone);
}

SIMGPU_RT(context, cudaGraphNodeGetType, (cudaGraphNode_t node, cudaGraphNodeType* type),
          (node, type)) {
  return g_driver.cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type));
}

SIMGPU_RT(context, cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
          (graph, nodes, count)) {
  return g_driver.cuGraphGetNodes(graph, nodes, count);
}

SIMGPU_RT(context, cudaGraphGetRootNodes,
          (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count), (graph, nodes, count)) {
  return g_driver.cuGraphGetRootNodes(graph, nodes, count);
}

SIMGPU_RT(context, cudaGraphGetEdges,
          (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data,
           size_t* count),
          (graph, from, to, data, count)) {
  return g_driver.cuGraphGetEdges(graph, from, to, reinterpret_cast<CUgraphEdgeData*>(data), count);
}

SIMGPU_RT(context, cudaGraphNodeGetDependencies,
          (cudaGraphNode_t node, cudaGraphNode_t* dependencies, cudaGraphEdgeData* data,
           size_t* count),
          (node, dependencies, data, count)) {
  return g_driver.cuGraphNodeGetDependencies(node, dependencies,
                                             reinterpret_cast<CUgraphEdgeData*>(data), count);
}

SIMGPU_RT(context, cudaGraphNodeGetDependentNodes,
          (cudaGraphNode_t node, cudaGraphNode_t* dependents, cudaGraphEdgeData* data,
           size_t* count),
          (node, dependents, data, count)) {
  return g_driver.cuGraphNodeGetDependentNodes(node, dependents,
                                               reinterpret_cast<CUgraphEdgeData*>(data), count);
}

SIMGPU_RT(context, cudaGraphAddDependencies,
          (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
           const cudaGraphEdgeData* data, size_t count),
          (graph, from, to, data, count)) {
  return g_driver.cuGraphAddDependencies(graph, from, to,
                                         reinterpret_cast<const CUgraphEdgeData*>(data), count);
}

SIMGPU_RT(context, cudaGraphRemoveDependencies,
          (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
           const cudaGraphEdgeData* data, size_t count),
          (graph, from, to, data, count)) {
  return g_driver.cuGraphRemoveDependencies(graph, from, to,
                                            reinterpret_cast<const CUgraphEdgeData*>(data), count);
}

SIMGPU_RT(context, cudaGraphDestroyNode, (cudaGraphNode_t node), (node)) {
  return g_driver.cuGraphDestroyNode(node);
}

SIMGPU_RT(context, cudaGraphInstantiate,
          (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
          (exec, graph, flags)) {
  return g_driver.cuGraphInstantiateWithFlags(exec, graph, flags);
}

SIMGPU_RT(context, cudaGraphInstantiateWithFlags,
          (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
          (exec, graph, flags)) {
  return g_driver.cuGraphInstantiateWithFlags(exec, graph, flags);
}

static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));

SIMGPU_RT_STREAM(context, cudaGraphInstantiateWithParams, _ptsz,
                 (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams* params),
                 (exec, graph, params)) {
  return calls.cuGraphInstantiateWithParams(
      exec, graph, reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params));
}

SIMGPU_RT(context, cudaGraphExecGetFlags, (cudaGraphExec_t exec, unsigned long long* flags),
          (exec, flags)) {
  if (!flags) {
    return cudaErrorInvalidValue;
  }
  cuuint64_t value = 0;
  SIMGPU_TRY(g_driver.cuGraphExecGetFlags(exec, &value));
  *flags = value;
  return cudaSuccess;
}

static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));

SIMGPU_RT(context, cudaGraphExecUpdate,
          (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info),
          (exec, graph, info)) {
  return g_driver.cuGraphExecUpdate(exec, graph,
                                    reinterpret_cast<CUgraphExecUpdateResultInfo*>(info));
}

SIMGPU_RT_STREAM(context, cudaGraphUpload, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
                 (exec, stream)) {
  return calls.cuGraphUpload(exec, stream);
}

SIMGPU_RT_STREAM(context, cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
                 (exec, stream)) {
  return calls.cuGraphLaunch(exec, stream);
}

SIMGPU_RT(context, cudaGraphExecDestroy, (cudaGraphExec_t exec), (exec)) {
  return g_driver.cuGraphExecDestroy(exec);
}

SIMGPU_RT(context, cudaGraphNodeSetEnabled,
          (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled), (exec, node, enabled)) {
  return g_driver.cuGraphNodeSetEnabled(exec, node, enabled);
}

SIMGPU_RT(context, cudaGraphNodeGetEnabled,
          (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled), (exec, node, enabled)) {
  return g_driver.cuGraphNodeGetEnabled(exec, node, enabled);
}

SIMGPU_RT(context, cudaGraphDebugDotPrint, (cudaGraph_t graph, const char* path, unsigned flags),
          (graph, path, flags)) {
  return g_driver.cuGraphDebugDotPrint(graph, path, flags);
}

SIMGPU_RT(driver, cudaDeviceGraphMemTrim, (int device), (device)) {
  return g_driver.cuDeviceGraphMemTrim(device);
}

SIMGPU_RT(driver, cudaDeviceGetGraphMemAttribute,
          (int device, cudaGraphMemAttributeType attribute, void* value),
          (device, attribute, value)) {
  return g_driver.cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute),
                                               value);
}

SIMGPU_RT(driver, cudaDeviceSetGraphMemAttribute,
          (int device, cudaGraphMemAttributeType attribute, void* value),
          (device, attribute, value)) {
  return g_driver.cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute),
                                               value);
}

SIMGPU_RT(context, cudaUserObjectCreate,
          (cudaUserObject_t * object, void* data, cudaHostFn_t destroy, unsigned references,
           unsigned flags),
          (object, data, destroy, references, flags)) {
  return g_driver.cuUserObjectCreate(object, data, destroy, references, flags);
}

SIMGPU_RT(context, cudaUserObjectRetain, (cudaUserObject_t object, unsigned count),
          (object, count)) {
  return g_driver.cuUserObjectRetain(object, count);
}

SIMGPU_RT(context, cudaUserObjectRelease, (cudaUserObject_t object, unsigned count),
          (object, count)) {
  return g_driver.cuUserObjectRelease(object, count);
}

SIMGPU_RT(context, cudaGraphRetainUserObject,
          (cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags),
          (graph, object, count, flags)) {
  return g_driver.cuGraphRetainUserObject(graph, object, count, flags);
}

SIMGPU_RT(context, cudaGraphReleaseUserObject,
          (cudaGraph_t graph, cudaUserObject_t object, unsigned count), (graph, object, count)) {
  return g_driver.cuGraphReleaseUserObject(graph, object, count);
}

}  // namespace simgpu::cudart
