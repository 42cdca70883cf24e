// Two- and three-dimensional copies between linear memory.
#include "cudart/api.h"
#include "cudart/convert.h"
#include "cudart/copy_shape.h"

namespace simgpu::cudart {

SIMGPU_RT_STREAM(context, cudaMemcpy2D, _ptds,
                 (void* target, size_t target_pitch, const void* source, size_t source_pitch,
                  size_t width, size_t height, cudaMemcpyKind kind),
                 (target, target_pitch, source, source_pitch, width, height, kind)) {
  CUDA_MEMCPY2D copy;
  SIMGPU_TRY(Shape2D(width, height, kind)
                 .from(source, source_pitch)
                 .to(target, target_pitch)
                 .describe(copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy2DUnaligned(&copy);
}

SIMGPU_RT_STREAM(context, cudaMemcpy2DAsync, _ptsz,
                 (void* target, size_t target_pitch, const void* source, size_t source_pitch,
                  size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                 (target, target_pitch, source, source_pitch, width, height, kind, stream)) {
  CUDA_MEMCPY2D copy;
  SIMGPU_TRY(Shape2D(width, height, kind)
                 .from(source, source_pitch)
                 .to(target, target_pitch)
                 .describe(copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy2DAsync(&copy, stream);
}

SIMGPU_RT_STREAM(context, cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* parms), (parms)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(driver_copy(parms, copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy3D(&copy);
}

SIMGPU_RT_STREAM(context, cudaMemcpy3DAsync, _ptsz,
                 (const cudaMemcpy3DParms* parms, cudaStream_t stream), (parms, stream)) {
  CUDA_MEMCPY3D copy;
  SIMGPU_TRY(driver_copy(parms, copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy3DAsync(&copy, stream);
}

SIMGPU_RT_STREAM(context, cudaMemcpy3DPeer, _ptds, (const cudaMemcpy3DPeerParms* parms), (parms)) {
  CUDA_MEMCPY3D_PEER copy;
  SIMGPU_TRY(driver_copy(parms, copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy3DPeer(&copy);
}

SIMGPU_RT_STREAM(context, cudaMemcpy3DPeerAsync, _ptsz,
                 (const cudaMemcpy3DPeerParms* parms, cudaStream_t stream), (parms, stream)) {
  CUDA_MEMCPY3D_PEER copy;
  SIMGPU_TRY(driver_copy(parms, copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy3DPeerAsync(&copy, stream);
}

static_assert(sizeof(cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP));

SIMGPU_RT_STREAM(context, cudaMemcpy3DBatchAsync, _ptsz,
                 (size_t count, cudaMemcpy3DBatchOp* operations, unsigned long long flags,
                  cudaStream_t stream),
                 (count, operations, flags, stream)) {
  return calls.cuMemcpy3DBatchAsync(count, reinterpret_cast<CUDA_MEMCPY3D_BATCH_OP*>(operations),
                                    flags, stream);
}

}  // namespace simgpu::cudart
