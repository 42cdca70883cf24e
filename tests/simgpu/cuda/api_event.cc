#include <cuda.h>

#include "common/entry.h"
#include "cuda/capture.h"
#include "cuda/per_thread.h"
#include "cuda/shared_event.h"
#include "cuda/state.h"
#include "cuda/tracing.h"

using namespace simgpu;

namespace simgpu {
namespace {

class RecordWork final : public Work {
 public:
  explicit RecordWork(std::shared_ptr<Recording> recording) : recording_(std::move(recording)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
  CUresult run(Run& run) const override {
    recording_->time_ns.store(run.start_ns, std::memory_order_release);
    return CUDA_SUCCESS;
  }

 private:
  std::shared_ptr<Recording> recording_;
};

}  // namespace

Slots<CUevent_st>& event_slots() {
  static Slots<CUevent_st>& slots = *new Slots<CUevent_st>;
  return slots;
}

CUevent new_event_handle(std::shared_ptr<Event> event) {
  CUevent handle = event_slots().take();
  handle->event = std::move(event);
  handle->alive.store(true, std::memory_order_release);
  return handle;
}

CUresult find_event(CUevent handle, std::shared_ptr<Event>& out) {
  if (!handle || !handle->alive.load(std::memory_order_acquire)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  out = handle->event;
  return CUDA_SUCCESS;
}

std::shared_ptr<const Work> record_work(std::shared_ptr<Recording> recording) {
  return std::make_shared<RecordWork>(std::move(recording));
}

void record_now(Stream& stream, Event& event) {
  if (event.shared) {
    submit_now(stream, shared_record_work(event));
    return;
  }
  auto recording = std::make_shared<Recording>();
  // Not under the event's lock: this may wait for room in the queue, and a query must not.
  recording->ticket = submit_now(stream, record_work(recording));
  const std::lock_guard lock(event.mutex);
  event.last = std::move(recording);
  event.captured_in.reset();
  event.captured_after.clear();
}

Ticket event_ticket(Event& event) {
  const std::lock_guard lock(event.mutex);
  return event.last ? event.last->ticket : Ticket{};
}

namespace {

CUresult record(CUevent event_handle, CUstream stream_handle, unsigned flags) {
  std::shared_ptr<Event> event;
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(stream_handle, stream));
  SIMGPU_TRY(find_event(event_handle, event));
  if (flags & ~CU_EVENT_RECORD_EXTERNAL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (event->context != stream->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const bool external = flags & CU_EVENT_RECORD_EXTERNAL;
  if (stream->capturing.load()) {
    return external ? capture_event_node(*stream, event_handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
                    : capture_record(*stream, *event);
  }
  if (external) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->legacy) {
    SIMGPU_TRY(forbid_legacy_while_capturing(*stream->context));
  }
  record_now(*stream, *event);
  return CUDA_SUCCESS;
}

std::shared_ptr<Recording> last_recording(Event& event) {
  const std::lock_guard lock(event.mutex);
  return event.last;
}

CUresult error_of(const Event& event) {
  return static_cast<CUresult>(event.context->fault->error.load());
}

}  // namespace
}  // namespace simgpu

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  const bool shareable = flags & CU_EVENT_INTERPROCESS;
  if (!out || (flags & ~kKnown) || (shareable && !(flags & CU_EVENT_DISABLE_TIMING))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto event = std::make_shared<Event>();
  event->context = current_context();
  event->flags = flags;
  if (shareable) {
    SIMGPU_TRY(make_shared_event(*event));
  }
  *out = new_event_handle(std::move(event));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  SIMGPU_DRIVER_ENTER();
  if (!handle || !handle->alive.exchange(false)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  handle->event.reset();
  event_slots().give(handle);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  SIMGPU_DRIVER_ENTER();
  return record(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  return record(event, stream, flags);
}

CUresult cuEventQuery(CUevent handle) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Event> event;
  SIMGPU_TRY(find_event(handle, event));
  if (recorded_in_capture(*event)) {
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  if (event->shared) {
    return shared_query(*event);
  }
  SIMGPU_TRY(error_of(*event));
  return event_ticket(*event).done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Event> event;
  SIMGPU_TRY(find_event(handle, event));
  if (recorded_in_capture(*event)) {
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  const TracedWait traced(SIMGPU_EVENT_WAIT, event->context, 0);
  if (event->shared) {
    return shared_synchronize(*event);
  }
  event_ticket(*event).wait();
  return error_of(*event);
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Event> start, end;
  SIMGPU_TRY(find_event(start_handle, start));
  SIMGPU_TRY(find_event(end_handle, end));
  if (!milliseconds) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::shared_ptr<Recording> from = last_recording(*start);
  const std::shared_ptr<Recording> to = last_recording(*end);
  const bool timed = !((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING);
  if (!timed || !from || !to || start->context != end->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  SIMGPU_TRY(error_of(*start));
  if (!from->ticket.done() || !to->ticket.done()) {
    return CUDA_ERROR_NOT_READY;
  }
  // A modelled device resolves half a microsecond, like the real ones (cuEventElapsedTime's
  // documentation).
  const int64_t elapsed_ns = to->time_ns.load() - from->time_ns.load();
  *milliseconds = static_cast<float>(static_cast<double>(elapsed_ns) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext context, CUevent handle) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Event> event;
  SIMGPU_TRY(find_event(handle, event));
  if (!context || !context->alive.load() || event->context != context || event->shared) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  std::vector<Ticket> all;
  for (const std::shared_ptr<Stream>& stream : streams_of(*context)) {
    all.push_back(stream->queue->last());
  }
  // A queue of its own: the event waits for all streams and holds up none.
  const std::shared_ptr<Stream> join = new_stream(*context, CU_STREAM_NON_BLOCKING, 0);
  auto recording = std::make_shared<Recording>();
  recording->ticket = submit_now(*join, record_work(recording), std::move(all));
  retire(join);
  const std::lock_guard lock(event->mutex);
  event->last = std::move(recording);
  return CUDA_SUCCESS;
}

CUresult cuCtxWaitEvent(CUcontext context, CUevent handle) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Event> event;
  SIMGPU_TRY(find_event(handle, event));
  if (!context || !context->alive.load() || event->shared) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const Ticket ticket = event_ticket(*event);
  for (const std::shared_ptr<Stream>& stream : streams_of(*context)) {
    submit_now(*stream, nullptr, {ticket});
  }
  return CUDA_SUCCESS;
}

SIMGPU_PER_THREAD(cuEventRecord, cuEventRecord_ptsz);
SIMGPU_PER_THREAD(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz);
