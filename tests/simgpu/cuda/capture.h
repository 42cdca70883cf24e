// Stream capture, as seen by the rest of the driver.  Implemented in capture.cc beside the graphs.
#pragma once
#include "cuda/state.h"

namespace simgpu {
struct NodeContent;

// Adds `work` as a node after the stream's capture frontier.  Only for a capturing stream.
CUresult capture_add(Stream& stream, std::shared_ptr<const Work> work);
// The same for any node; needs graph_mutex().
CUresult capture_add_locked(Stream& stream, NodeContent content);

// cuEventRecord / cuStreamWaitEvent where the stream is capturing or the event was recorded in a
// capture.
CUresult capture_record(Stream& stream, Event& event);
CUresult capture_wait(Stream& stream, Event& event);
// The same with CU_EVENT_RECORD_EXTERNAL / CU_EVENT_WAIT_EXTERNAL on a capturing stream: event
// nodes.
CUresult capture_event_node(Stream& stream, CUevent event, CUgraphNodeType type);
bool recorded_in_capture(Event& event);

// For calls that must not be made on a stream being captured (synchronise, query): invalidates the
// capture and returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; CUDA_SUCCESS if it is not captured.
CUresult forbid_captured(Stream& stream);
// For potentially unsafe calls (cuMemAlloc, cuMemFree, cuCtxSynchronize, cuEventQuery outside,
// ...): the same if this thread has a capture that is not relaxed, or another thread has one in
// global mode and this thread's own mode is global; never if this thread's mode is relaxed.
CUresult forbid_unsafe_while_capturing();
// Work on the legacy stream while a blocking stream of the context is being captured:
// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and that capture is invalidated.
CUresult forbid_legacy_while_capturing(Context& context);
// The same, but only says so (cuStreamIsCapturing, cuStreamGetCaptureInfo).
CUresult implicit_capture(Context& context);
// The stream is being destroyed: its capture can no longer be completed.
void abandon_capture(Stream& stream);

// --- the calls themselves (api_capture.cc)
CUresult begin_capture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode);
CUresult begin_capture_to_graph(const std::shared_ptr<Stream>& stream, CUgraph graph,
                                const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                                CUstreamCaptureMode mode);
CUresult end_capture(Stream& stream, CUgraph* graph);
struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  uint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;  // owned by the capture, until the next call on the stream
  const CUgraphEdgeData* data = nullptr;
  size_t count = 0;
  bool default_data = true;
};
CUresult capture_info(Stream& stream, CaptureInfo& info);
CUresult update_dependencies(Stream& stream, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                             size_t count, bool replace);
CUresult exchange_mode(CUstreamCaptureMode& mode);

}  // namespace simgpu
