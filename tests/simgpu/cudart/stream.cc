// Streams.  Their handles are the driver's.
#include <memory>

#include "cudart/api.h"
#include "cudart/convert.h"

namespace simgpu::cudart {
namespace {

// A callback of the runtime takes the runtime's error code; the driver knows nothing of it.
struct Callback {
  cudaStreamCallback_t function;
  void* user;
};

void CUDA_CB run_callback(CUstream stream, CUresult result, void* data) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(data));
  callback->function(stream, Status(result).code(), callback->user);
}

}  // namespace

SIMGPU_RT(context, cudaStreamCreate, (cudaStream_t * stream), (stream)) {
  return g_driver.cuStreamCreate(stream, CU_STREAM_DEFAULT);
}

SIMGPU_RT(context, cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags),
          (stream, flags)) {
  return g_driver.cuStreamCreate(stream, flags);
}

SIMGPU_RT(context, cudaStreamCreateWithPriority,
          (cudaStream_t * stream, unsigned flags, int priority), (stream, flags, priority)) {
  return g_driver.cuStreamCreateWithPriority(stream, flags, priority);
}

SIMGPU_RT(context, cudaStreamDestroy, (cudaStream_t stream), (stream)) {
  // The default streams have handles but cannot be destroyed.
  if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    return cudaErrorInvalidResourceHandle;
  }
  return g_driver.cuStreamDestroy(stream);
}

SIMGPU_RT_STREAM(context, cudaStreamSynchronize, _ptsz, (cudaStream_t stream), (stream)) {
  return calls.cuStreamSynchronize(stream);
}

SIMGPU_RT_STREAM(context, cudaStreamQuery, _ptsz, (cudaStream_t stream), (stream)) {
  return calls.cuStreamQuery(stream);
}

SIMGPU_RT_STREAM(context, cudaStreamWaitEvent, _ptsz,
                 (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags)) {
  return calls.cuStreamWaitEvent(stream, event, flags);
}

SIMGPU_RT_STREAM(context, cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int* priority),
                 (stream, priority)) {
  return calls.cuStreamGetPriority(stream, priority);
}

SIMGPU_RT_STREAM(context, cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned* flags),
                 (stream, flags)) {
  return calls.cuStreamGetFlags(stream, flags);
}

SIMGPU_RT_STREAM(context, cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long* id),
                 (stream, id)) {
  return calls.cuStreamGetId(stream, id);
}

SIMGPU_RT_STREAM(context, cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int* device),
                 (stream, device)) {
  return device ? Status(calls.cuStreamGetDevice(stream, device)) : cudaErrorInvalidValue;
}

SIMGPU_RT_STREAM(context, cudaStreamCopyAttributes, _ptsz,
                 (cudaStream_t target, cudaStream_t source), (target, source)) {
  return calls.cuStreamCopyAttributes(target, source);
}

static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUstreamAttrValue));

SIMGPU_RT_STREAM(context, cudaStreamGetAttribute, _ptsz,
                 (cudaStream_t stream, cudaLaunchAttributeID attribute,
                  cudaLaunchAttributeValue* value),
                 (stream, attribute, value)) {
  return calls.cuStreamGetAttribute(stream, static_cast<CUstreamAttrID>(attribute),
                                    reinterpret_cast<CUstreamAttrValue*>(value));
}

SIMGPU_RT_STREAM(context, cudaStreamSetAttribute, _ptsz,
                 (cudaStream_t stream, cudaLaunchAttributeID attribute,
                  const cudaLaunchAttributeValue* value),
                 (stream, attribute, value)) {
  return calls.cuStreamSetAttribute(stream, static_cast<CUstreamAttrID>(attribute),
                                    reinterpret_cast<const CUstreamAttrValue*>(value));
}

SIMGPU_RT_STREAM(context, cudaStreamAttachMemAsync, _ptsz,
                 (cudaStream_t stream, void* memory, size_t length, unsigned flags),
                 (stream, memory, length, flags)) {
  return calls.cuStreamAttachMemAsync(stream, address(memory), length, flags);
}

SIMGPU_RT_STREAM(context, cudaStreamAddCallback, _ptsz,
                 (cudaStream_t stream, cudaStreamCallback_t function, void* user, unsigned flags),
                 (stream, function, user, flags)) {
  if (!function || flags != 0) {
    return cudaErrorInvalidValue;
  }
  auto callback = std::make_unique<Callback>(Callback{function, user});
  SIMGPU_TRY(calls.cuStreamAddCallback(stream, run_callback, callback.get(), 0));
  // Freed by run_callback, which runs even when the stream has failed.
  (void)callback.release();  // NOLINT(bugprone-unused-return-value)
  return cudaSuccess;
}

SIMGPU_RT_STREAM(context, cudaLaunchHostFunc, _ptsz,
                 (cudaStream_t stream, cudaHostFn_t function, void* user),
                 (stream, function, user)) {
  return function ? Status(calls.cuLaunchHostFunc(stream, function, user)) : cudaErrorInvalidValue;
}

}  // namespace simgpu::cudart
