// Stream capture, as seen by the rest of the driver.  Implemented in capture.cc beside the graphs.
#pragma once
#include "cuda/state.h"

namespace simgpu {

// Adds `work` as a node after the stream's capture frontier.  Only for a capturing stream.
CUresult capture_add(Stream& stream, std::shared_ptr<const Work> work);
// cuEventRecord / cuStreamWaitEvent where the stream is capturing or the event was recorded in a capture.
CUresult capture_record(Stream& stream, Event& event);
CUresult capture_wait(Stream& stream, Event& event);
bool recorded_in_capture(Event& event);

// For calls that must not be made on a stream being captured (synchronise, query): invalidates the
// capture and returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; CUDA_SUCCESS if it is not captured.
CUresult forbid_captured(Stream& stream);
// For potentially unsafe calls (cuMemAlloc, cuMemFree, cuCtxSynchronize, cuEventQuery outside, ...): the same if a capture in
// global mode exists anywhere, or in thread-local mode in this thread, unless this thread's mode is relaxed.
CUresult forbid_unsafe_while_capturing();
// Work on the legacy stream while a blocking stream of the context is being captured:
// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and that capture is invalidated.
CUresult forbid_legacy_while_capturing(Context& context);

}  // namespace simgpu
