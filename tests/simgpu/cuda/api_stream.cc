#include <cuda.h>

#include <algorithm>

#include "common/entry.h"
#include "cuda/capture.h"
#include "cuda/context_memory.h"
#include "cuda/per_thread.h"
#include "cuda/shared_event.h"
#include "cuda/stream_work.h"
#include "cuda/tracing.h"

using namespace simgpu;

namespace {

Slots<CUstream_st>& stream_slots() {
  static Slots<CUstream_st>& slots = *new Slots<CUstream_st>;
  return slots;
}

// Priorities run from 0 (low) to -5 (high) on recent parts; values outside are clamped.
constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -5;

class Callback final : public Work {
 public:
  Callback(CUstream stream, CUstreamCallback function, void* data)
      : stream_(stream), function_(function), data_(data) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_HOST; }
  CUresult run(Run& run) const override {
    function_(stream_, static_cast<CUresult>(run.fault.error.load()), data_);
    run.ends_now();
    return CUDA_SUCCESS;
  }

 private:
  CUstream stream_;
  CUstreamCallback function_;
  void* data_;
};

}  // namespace

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  SIMGPU_CONTEXT_ENTER();
  if (!out || (flags & ~CU_STREAM_NON_BLOCKING)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int clamped = std::clamp(priority, kHighestPriority, kLowestPriority);
  CUstream handle = stream_slots().take();
  handle->stream = new_stream(*current_context(), flags, clamped);
  handle->stream->handle = handle;
  handle->alive.store(true, std::memory_order_release);
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  return cuStreamCreateWithPriority(out, flags, kLowestPriority);
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  SIMGPU_CONTEXT_ENTER();
  if (least) {
    *least = kLowestPriority;
  }
  if (greatest) {
    *greatest = kHighestPriority;
  }
  return CUDA_SUCCESS;
}

// Returns at once; what is queued still runs.
CUresult cuStreamDestroy_v2(CUstream handle) {
  SIMGPU_DRIVER_ENTER();
  if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!handle->alive.exchange(false)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  // The queue's thread holds the queue, not the stream: the context must still find what is
  // pending.
  const std::shared_ptr<Stream> stream = std::move(handle->stream);
  handle->stream.reset();
  abandon_capture(*stream);
  retire(stream);
  stream_slots().give(handle);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  SIMGPU_TRY(forbid_captured(*stream));
  const TracedWait traced(SIMGPU_STREAM_WAIT, stream->context, static_cast<uint32_t>(stream->id));
  if (stream->legacy) {
    // The legacy stream counts as behind all blocking streams.
    Ticket ticket;
    SIMGPU_TRY(submit(*stream, nullptr, &ticket));
    ticket.wait();
  } else {
    stream->queue->last().wait();
  }
  trim_pools(stream->context->device);
  return static_cast<CUresult>(stream->context->fault->error.load());
}

CUresult cuStreamQuery(CUstream handle) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  SIMGPU_TRY(forbid_captured(*stream));
  bool idle = stream->queue->idle();
  if (stream->legacy) {
    for (const std::shared_ptr<Stream>& other : streams_of(*stream->context)) {
      idle = idle && (!other->blocking() || other->queue->idle());
    }
  }
  const auto error = static_cast<CUresult>(stream->context->fault->error.load());
  return error != CUDA_SUCCESS ? error : idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  SIMGPU_TRY(find_stream(handle, stream));
  SIMGPU_TRY(find_event(event_handle, event));
  if (flags & ~CU_EVENT_WAIT_EXTERNAL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool external = flags & CU_EVENT_WAIT_EXTERNAL;
  if (external) {
    return stream->capturing.load()
               ? capture_event_node(*stream, event_handle, CU_GRAPH_NODE_TYPE_WAIT_EVENT)
               : CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->capturing.load() || recorded_in_capture(*event)) {
    return capture_wait(*stream, *event);
  }
  if (event->shared) {
    return submit(*stream, shared_wait_work(*event));
  }
  Ticket ticket = event_ticket(*event);
  if (!ticket.done()) {
    submit_now(*stream, nullptr, {std::move(ticket)});
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback function, void* data,
                             unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  if (!function || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(forbid_captured(*stream));
  return submit(*stream, std::make_shared<Callback>(handle, function, data));
}

namespace {

// For the functions that tell one thing about a stream.
template <class Value, class Read>
CUresult tell(CUstream handle, Value* out, Read read) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(stream->context->mutex);
  *out = read(*stream);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  SIMGPU_DRIVER_ENTER();
  return tell(handle, priority, [](const Stream& stream) { return stream.priority; });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  SIMGPU_DRIVER_ENTER();
  return tell(handle, flags, [](const Stream& stream) { return stream.flags; });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  SIMGPU_DRIVER_ENTER();
  return tell(handle, id, [](const Stream& stream) { return stream.id; });
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  SIMGPU_DRIVER_ENTER();
  return tell(handle, device, [](const Stream& stream) { return stream.context->device; });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  SIMGPU_DRIVER_ENTER();
  return tell(handle, context, [](const Stream& stream) { return stream.context; });
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  SIMGPU_DRIVER_ENTER();
  if (green) {
    *green = nullptr;
  }
  return cuStreamGetCtx(handle, context);
}

// Attributes are stored and given back; none of them changes how simgpu runs the stream.
CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue* value) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  if (!value) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(stream->context->mutex);
  stream->attributes[id] = *value;
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    stream->priority = std::clamp(value->priority, kHighestPriority, kLowestPriority);
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue* value) {
  SIMGPU_DRIVER_ENTER();
  return tell(handle, value, [id](const Stream& stream) {
    const auto found = stream.attributes.find(id);
    CUstreamAttrValue out = found == stream.attributes.end() ? CUstreamAttrValue{} : found->second;
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
      out.priority = stream.priority;
    }
    return out;
  });
}

CUresult cuStreamCopyAttributes(CUstream to_handle, CUstream from_handle) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Stream> to, from;
  SIMGPU_TRY(find_stream(to_handle, to));
  SIMGPU_TRY(find_stream(from_handle, from));
  if (to->context != from->context) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(to->context->mutex);
  to->attributes = from->attributes;
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  const CUDA_HOST_NODE_PARAMS parameters = {function, data};
  std::shared_ptr<const Work> work;
  SIMGPU_TRY(make_host_work(parameters, work));
  return submit(*stream, std::move(work));
}

SIMGPU_PER_THREAD(cuStreamSynchronize, cuStreamSynchronize_ptsz);
SIMGPU_PER_THREAD(cuStreamQuery, cuStreamQuery_ptsz);
SIMGPU_PER_THREAD(cuStreamWaitEvent, cuStreamWaitEvent_ptsz);
SIMGPU_PER_THREAD(cuStreamAddCallback, cuStreamAddCallback_ptsz);
SIMGPU_PER_THREAD(cuStreamGetPriority, cuStreamGetPriority_ptsz);
SIMGPU_PER_THREAD(cuStreamGetFlags, cuStreamGetFlags_ptsz);
SIMGPU_PER_THREAD(cuStreamGetId, cuStreamGetId_ptsz);
SIMGPU_PER_THREAD(cuStreamGetDevice, cuStreamGetDevice_ptsz);
SIMGPU_PER_THREAD(cuStreamGetCtx, cuStreamGetCtx_ptsz);
SIMGPU_PER_THREAD(cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz);
SIMGPU_PER_THREAD(cuStreamSetAttribute, cuStreamSetAttribute_ptsz);
SIMGPU_PER_THREAD(cuStreamGetAttribute, cuStreamGetAttribute_ptsz);
SIMGPU_PER_THREAD(cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz);
SIMGPU_PER_THREAD(cuLaunchHostFunc, cuLaunchHostFunc_ptsz);
