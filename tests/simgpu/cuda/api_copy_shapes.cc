// Two- and three-dimensional copies, and copies between contexts.
#include "cuda/copy.h"
#include "cuda/copy_submit.h"
#include "cuda/per_thread.h"

namespace simgpu {
namespace {

// Both contexts' work so far comes before the copy, all later work of theirs after it.
CUresult copy_between(const CUDA_MEMCPY3D& parameters, CUcontext to, CUcontext from) {
  if (!to || !from) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  std::vector<Ticket> earlier;
  for (CUcontext context : {to, from}) {
    if (!context->alive) {
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    for (const std::shared_ptr<Stream>& stream : streams_of(*context)) {
      earlier.push_back(stream->queue->last());
    }
  }
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(nullptr, stream));
  CopyPlan plan;
  SIMGPU_TRY(plan_copy(parameters, plan));
  if (plan.bytes() == 0) {
    return CUDA_SUCCESS;
  }
  Ticket ticket;
  SIMGPU_TRY(submit(*stream, work_of(std::move(plan)), &ticket, std::move(earlier)));
  for (CUcontext context : {to, from}) {
    if (ticket.queue && context != stream->context) {
      submit_now(*context->legacy, nullptr, {ticket});
    }
  }
  return CUDA_SUCCESS;
}

CUresult check_contexts(CUcontext to, CUcontext from) {
  if (!to || !from) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return to->alive && from->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool has_context(CUmemorytype type) {
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

// The contexts matter for device memory only.
CUcontext context_or_current(CUmemorytype type, CUcontext context) {
  return has_context(type) ? context : current_context();
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemcpy2D(const CUDA_MEMCPY2D* copy) {
  SIMGPU_CONTEXT_ENTER();
  return copy ? copy_now(copy_of(*copy)) : CUDA_ERROR_INVALID_VALUE;
}

// "Unaligned" is about pitches that hardware once could not do.
extern "C" CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* copy) {
  SIMGPU_CONTEXT_ENTER();
  return copy ? copy_now(copy_of(*copy)) : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return copy ? copy_async(copy_of(*copy), stream) : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuMemcpy3D(const CUDA_MEMCPY3D* copy) {
  SIMGPU_CONTEXT_ENTER();
  return copy ? copy_now(*copy) : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* copy, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return copy ? copy_async(*copy, stream) : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return copy_between(linear_copy(to, from, bytes), to_context, from_context);
}

extern "C" CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                      CUcontext from_context, size_t bytes, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  SIMGPU_TRY(check_contexts(to_context, from_context));
  return copy_async(linear_copy(to, from, bytes), stream);
}

extern "C" CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  SIMGPU_CONTEXT_ENTER();
  if (!copy) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return copy_between(copy_of(*copy), context_or_current(copy->dstMemoryType, copy->dstContext),
                      context_or_current(copy->srcMemoryType, copy->srcContext));
}

extern "C" CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  if (!copy) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(check_contexts(context_or_current(copy->dstMemoryType, copy->dstContext),
                            context_or_current(copy->srcMemoryType, copy->srcContext)));
  return copy_async(copy_of(*copy), stream);
}

SIMGPU_PER_THREAD(cuMemcpy2D, cuMemcpy2D_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpy2DAsync, cuMemcpy2DAsync_v2_ptsz);
SIMGPU_PER_THREAD(cuMemcpy3D, cuMemcpy3D_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpy3DAsync, cuMemcpy3DAsync_v2_ptsz);
SIMGPU_PER_THREAD(cuMemcpyPeer, cuMemcpyPeer_ptds);
SIMGPU_PER_THREAD(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz);
SIMGPU_PER_THREAD(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds);
SIMGPU_PER_THREAD(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz);
