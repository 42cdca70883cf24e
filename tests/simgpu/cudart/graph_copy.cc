// Copy nodes of graphs: general, one-dimensional, to and from variables.
#include "cudart/api.h"
#include "cudart/convert.h"
#include "cudart/graph_params.h"
#include "cudart/symbol.h"

namespace simgpu::cudart {
namespace {

Status add_copy(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                size_t count, const CUDA_MEMCPY3D& copy) {
  CUcontext context = nullptr;
  SIMGPU_TRY(current_context(context));
  return g_driver.cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy, context);
}

Status set_copy(cudaGraphExec_t exec, cudaGraphNode_t node, const CUDA_MEMCPY3D& copy) {
  CUcontext context = nullptr;
  SIMGPU_TRY(current_context(context));
  return g_driver.cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context);
}

Status copy_to_symbol(const void* symbol, const void* source, size_t bytes, size_t offset,
                      cudaMemcpyKind kind, CUDA_MEMCPY3D& copy) {
  CUdeviceptr start = 0;
  SIMGPU_TRY(find_target(symbol, bytes, offset, kind, start));
  return linear_copy(pointer(start), source, bytes, kind, copy);
}

Status copy_from_symbol(void* target, const void* symbol, size_t bytes, size_t offset,
                        cudaMemcpyKind kind, CUDA_MEMCPY3D& copy) {
  CUdeviceptr start = 0;
  SIMGPU_TRY(find_source(symbol, bytes, offset, kind, start));
  return linear_copy(target, pointer(start), bytes, kind, copy);
}

}  // namespace

SIMGPU_RT(context, cudaGraphAddMemcpyNode,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, const cudaMemcpy3DParms* params),
          (node, graph, dependencies, count, params)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(driver_copy(params, copy));
  return add_copy(node, graph, dependencies, count, copy);
}

SIMGPU_RT(context, cudaGraphAddMemcpyNode1D,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, void* target, const void* source, size_t bytes, cudaMemcpyKind kind),
          (node, graph, dependencies, count, target, source, bytes, kind)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(linear_copy(target, source, bytes, kind, copy));
  return add_copy(node, graph, dependencies, count, copy);
}

SIMGPU_RT(context, cudaGraphAddMemcpyNodeToSymbol,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, const void* symbol, const void* source, size_t bytes, size_t offset,
           cudaMemcpyKind kind),
          (node, graph, dependencies, count, symbol, source, bytes, offset, kind)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(copy_to_symbol(symbol, source, bytes, offset, kind, copy));
  return add_copy(node, graph, dependencies, count, copy);
}

SIMGPU_RT(context, cudaGraphAddMemcpyNodeFromSymbol,
          (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           size_t count, void* target, const void* symbol, size_t bytes, size_t offset,
           cudaMemcpyKind kind),
          (node, graph, dependencies, count, target, symbol, bytes, offset, kind)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(copy_from_symbol(target, symbol, bytes, offset, kind, copy));
  return add_copy(node, graph, dependencies, count, copy);
}

SIMGPU_RT(context, cudaGraphMemcpyNodeGetParams, (cudaGraphNode_t node, cudaMemcpy3DParms* params),
          (node, params)) {
  if (!params) {
    return cudaErrorInvalidValue;
  }
  CUDA_MEMCPY3D copy = {};
  SIMGPU_TRY(g_driver.cuGraphMemcpyNodeGetParams(node, &copy));
  return runtime_copy(copy, *params);
}

SIMGPU_RT(context, cudaGraphMemcpyNodeSetParams,
          (cudaGraphNode_t node, const cudaMemcpy3DParms* params), (node, params)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(driver_copy(params, copy));
  return g_driver.cuGraphMemcpyNodeSetParams(node, &copy);
}

SIMGPU_RT(context, cudaGraphMemcpyNodeSetParams1D,
          (cudaGraphNode_t node, void* target, const void* source, size_t bytes,
           cudaMemcpyKind kind),
          (node, target, source, bytes, kind)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(linear_copy(target, source, bytes, kind, copy));
  return g_driver.cuGraphMemcpyNodeSetParams(node, &copy);
}

SIMGPU_RT(context, cudaGraphMemcpyNodeSetParamsToSymbol,
          (cudaGraphNode_t node, const void* symbol, const void* source, size_t bytes,
           size_t offset, cudaMemcpyKind kind),
          (node, symbol, source, bytes, offset, kind)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(copy_to_symbol(symbol, source, bytes, offset, kind, copy));
  return g_driver.cuGraphMemcpyNodeSetParams(node, &copy);
}

SIMGPU_RT(context, cudaGraphMemcpyNodeSetParamsFromSymbol,
          (cudaGraphNode_t node, void* target, const void* symbol, size_t bytes, size_t offset,
           cudaMemcpyKind kind),
          (node, target, symbol, bytes, offset, kind)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(copy_from_symbol(target, symbol, bytes, offset, kind, copy));
  return g_driver.cuGraphMemcpyNodeSetParams(node, &copy);
}

SIMGPU_RT(context, cudaGraphExecMemcpyNodeSetParams,
          (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms* params),
          (exec, node, params)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(driver_copy(params, copy));
  return set_copy(exec, node, copy);
}

SIMGPU_RT(context, cudaGraphExecMemcpyNodeSetParams1D,
          (cudaGraphExec_t exec, cudaGraphNode_t node, void* target, const void* source,
           size_t bytes, cudaMemcpyKind kind),
          (exec, node, target, source, bytes, kind)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(linear_copy(target, source, bytes, kind, copy));
  return set_copy(exec, node, copy);
}

SIMGPU_RT(context, cudaGraphExecMemcpyNodeSetParamsToSymbol,
          (cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol, const void* source,
           size_t bytes, size_t offset, cudaMemcpyKind kind),
          (exec, node, symbol, source, bytes, offset, kind)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(copy_to_symbol(symbol, source, bytes, offset, kind, copy));
  return set_copy(exec, node, copy);
}

SIMGPU_RT(context, cudaGraphExecMemcpyNodeSetParamsFromSymbol,
          (cudaGraphExec_t exec, cudaGraphNode_t node, void* target, const void* symbol,
           size_t bytes, size_t offset, cudaMemcpyKind kind),
          (exec, node, target, symbol, bytes, offset, kind)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(copy_from_symbol(target, symbol, bytes, offset, kind, copy));
  return set_copy(exec, node, copy);
}

}  // namespace simgpu::cudart
