#include "cudart/graph_params.h"

#include <cstring>

#include "cudart/api.h"
#include "cudart/convert.h"
#include "cudart/registry.h"

namespace simgpu::cudart {
namespace {

// Structures that both sides lay out alike.
template <class To, class From>
void copy_layout(const From& from, To& to) {
  static_assert(sizeof(To) == sizeof(From));
  memcpy(&to, &from, sizeof to);
}

template <class Params, class Out>
Status kernel_params(const Params& params, Out& out) {
  CUkernel kernel = nullptr;
  SIMGPU_TRY(find_kernel(params.func, kernel));
  out = {};
  out.kern = kernel;
  out.gridDimX = params.gridDim.x;
  out.gridDimY = params.gridDim.y;
  out.gridDimZ = params.gridDim.z;
  out.blockDimX = params.blockDim.x;
  out.blockDimY = params.blockDim.y;
  out.blockDimZ = params.blockDim.z;
  out.sharedMemBytes = params.sharedMemBytes;
  out.kernelParams = params.kernelParams;
  out.extra = params.extra;
  return cudaSuccess;
}

Status memset_params(const cudaMemsetParamsV2& params, CUDA_MEMSET_NODE_PARAMS_v2& out) {
  out = {address(params.dst), params.pitch,  params.value, params.elementSize,
         params.width,        params.height, nullptr};
  return current_context(out.ctx);
}

Status conditional_params(const cudaConditionalNodeParams& params,
                          CUDA_CONDITIONAL_NODE_PARAMS& out) {
  out = {params.handle, static_cast<CUgraphConditionalNodeType>(params.type), params.size,
         params.phGraph_out, nullptr};
  return current_context(out.ctx);
}

Status memcpy_params(const cudaMemcpyNodeParams& params, CUDA_MEMCPY_NODE_PARAMS& out) {
  out.flags = params.flags;
  SIMGPU_TRY(driver_copy(&params.copyParams, out.copyParams));
  return current_context(out.copyCtx);
}

}  // namespace

Status current_context(CUcontext& context) {
  return g_driver.cuCtxGetCurrent(&context);
}

Status driver_params(const cudaKernelNodeParams* params, CUDA_KERNEL_NODE_PARAMS& out) {
  return params ? kernel_params(*params, out) : cudaErrorInvalidValue;
}

cudaKernelNodeParams runtime_params(const CUDA_KERNEL_NODE_PARAMS& params) {
  CUkernel kernel = params.kern ? params.kern : reinterpret_cast<CUkernel>(params.func);
  return {host_of(kernel),
          dim3(params.gridDimX, params.gridDimY, params.gridDimZ),
          dim3(params.blockDimX, params.blockDimY, params.blockDimZ),
          params.sharedMemBytes,
          params.kernelParams,
          params.extra};
}

Status driver_params(const cudaGraphNodeParams* params, CUgraphNodeParams& out) {
  if (!params) {
    return cudaErrorInvalidValue;
  }
  memset(&out, 0, sizeof out);
  out.type = static_cast<CUgraphNodeType>(params->type);
  switch (params->type) {
    case cudaGraphNodeTypeKernel:
      return kernel_params(params->kernel, out.kernel);
    case cudaGraphNodeTypeMemcpy:
      return memcpy_params(params->memcpy, out.memcpy);
    case cudaGraphNodeTypeMemset:
      return memset_params(params->memset, out.memset);
    case cudaGraphNodeTypeConditional:
      return conditional_params(params->conditional, out.conditional);
    case cudaGraphNodeTypeHost:
      copy_layout(params->host, out.host);
      return cudaSuccess;
    case cudaGraphNodeTypeGraph:
      copy_layout(params->graph, out.graph);
      return cudaSuccess;
    case cudaGraphNodeTypeWaitEvent:
      copy_layout(params->eventWait, out.eventWait);
      return cudaSuccess;
    case cudaGraphNodeTypeEventRecord:
      copy_layout(params->eventRecord, out.eventRecord);
      return cudaSuccess;
    case cudaGraphNodeTypeMemAlloc:
      copy_layout(params->alloc, out.alloc);
      return cudaSuccess;
    case cudaGraphNodeTypeMemFree:
      copy_layout(params->free, out.free);
      return cudaSuccess;
    case cudaGraphNodeTypeEmpty:
      return cudaSuccess;
    default:
      return cudaErrorNotSupported;
  }
}

void return_results(const CUgraphNodeParams& from, cudaGraphNodeParams& to) {
  if (to.type == cudaGraphNodeTypeMemAlloc) {
    to.alloc.dptr = pointer(from.alloc.dptr);
  } else if (to.type == cudaGraphNodeTypeConditional) {
    to.conditional.phGraph_out = from.conditional.phGraph_out;
  }
}

}  // namespace simgpu::cudart
