#include "cuda/capture.h"

#include <algorithm>

#include "cuda/capture_state.h"
#include "cuda/graph.h"
#include "cuda/launch.h"

namespace simgpu {

namespace {

// A kernel launched with programmatic serialisation depends programmatically on kernels before it.
void mark_programmatic(const NodeContent& content, std::vector<Edge>& edges) {
  const auto found = content.attributes.find(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  if (found == content.attributes.end() || !found->second.programmaticStreamSerializationAllowed) {
    return;
  }
  for (Edge& edge : edges) {
    if (edge.node->content.type == CU_GRAPH_NODE_TYPE_KERNEL) {
      edge.data = {
          CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
    }
  }
}

bool captures_blocking_stream(const Capture& capture, const Context& context) {
  return std::any_of(capture.streams.begin(), capture.streams.end(), [&](const auto& entry) {
    return entry.first->context == &context && entry.first->blocking();
  });
}

struct CapturedRecording {
  std::shared_ptr<Capture> capture;  // null if it is over
  std::vector<CUgraphNode> after;
};

// Takes the event's lock, which may be held while its owner waits for room in a queue: never call
// this under graph_mutex().
CapturedRecording captured_recording(Event& event) {
  const std::lock_guard lock(event.mutex);
  return {event.captured_in.lock(), event.captured_after};
}

CUresult wait_while_capturing(Stream& stream, const CapturedRecording& recording) {
  Capture& capture = *stream.capture;
  if (capture.invalid) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (!recording.capture || recording.capture->ended) {
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  if (recording.capture != stream.capture) {
    invalidate(*recording.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  for (CUgraphNode node : recording.after) {
    capture.frontier(stream).add({node, {}});
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult capture_add_locked(Stream& stream, NodeContent content) {
  if (!stream.capture) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;  // ended by another thread just now
  }
  Capture& capture = *stream.capture;
  if (capture.invalid) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  Frontier& frontier = capture.frontier(stream);
  std::vector<Edge> edges = frontier.edges();
  mark_programmatic(content, edges);
  frontier.assign({{append_node(capture.graph, edges, std::move(content)), {}}});
  return CUDA_SUCCESS;
}

CUresult capture_add(Stream& stream, std::shared_ptr<const Work> work) {
  if (!work) {
    return CUDA_SUCCESS;
  }
  NodeContent content;
  content.type = work->type();
  if (content.type == CU_GRAPH_NODE_TYPE_KERNEL) {
    for (const CUlaunchAttribute& attribute : launch_attributes_of(*work)) {
      content.attributes[attribute.id] = attribute.value;
    }
    CUlaunchAttributeValue priority = {};
    priority.priority = stream.priority;
    content.attributes.emplace(CU_LAUNCH_ATTRIBUTE_PRIORITY, priority);
  }
  content.context = stream.context;
  content.work = std::move(work);
  const std::lock_guard lock(graph_mutex());
  return capture_add_locked(stream, std::move(content));
}

CUresult capture_record(Stream& stream, Event& event) {
  std::shared_ptr<Capture> capture;
  std::vector<CUgraphNode> after;
  {
    const std::lock_guard lock(graph_mutex());
    capture = stream.capture;
    if (!capture || capture->invalid) {
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    after = capture->frontier(stream).nodes;
  }
  const std::lock_guard lock(event.mutex);
  event.captured_in = capture;
  event.captured_after = std::move(after);
  return CUDA_SUCCESS;
}

CUresult capture_wait(Stream& stream, Event& event) {
  const CapturedRecording recording = captured_recording(event);
  const std::lock_guard lock(graph_mutex());
  if (stream.capture) {
    return wait_while_capturing(stream, recording);
  }
  if (!recording.capture || recording.capture->ended) {
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (recording.capture->invalid) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (stream.legacy) {
    return invalidate(*recording.capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  join_capture(recording.capture, stream.shared_from_this(),
               plain_edges(recording.after.data(), recording.after.size()));
  return CUDA_SUCCESS;
}

CUresult capture_event_node(Stream& stream, CUevent event, CUgraphNodeType type) {
  NodeContent content;
  content.type = type;
  content.event_handle = event;
  SIMGPU_TRY(find_event(event, content.event));
  const std::lock_guard lock(graph_mutex());
  return capture_add_locked(stream, std::move(content));
}

// True also when the capture is over: a weak pointer that has expired differs from an empty one.
bool recorded_in_capture(Event& event) {
  const std::lock_guard lock(event.mutex);
  const std::weak_ptr<Capture> none;
  return event.captured_in.owner_before(none) || none.owner_before(event.captured_in);
}

CUresult forbid_captured(Stream& stream) {
  if (stream.legacy) {
    return forbid_legacy_while_capturing(*stream.context);
  }
  if (!stream.capturing.load(std::memory_order_acquire)) {
    return CUDA_SUCCESS;
  }
  const std::lock_guard lock(graph_mutex());
  return stream.capture ? invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
                        : CUDA_SUCCESS;
}

CUresult forbid_unsafe_while_capturing() {
  if (!any_capture() || capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_SUCCESS;
  }
  const std::lock_guard lock(graph_mutex());
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Capture>& capture : ongoing_captures()) {
    const bool forbids = capture->thread == capture_thread()
                             ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                             : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                   capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (forbids) {
      capture->invalid = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return result;
}

CUresult forbid_legacy_while_capturing(Context& context) {
  if (!any_capture()) {
    return CUDA_SUCCESS;
  }
  const std::lock_guard lock(graph_mutex());
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Capture>& capture : ongoing_captures()) {
    if (captures_blocking_stream(*capture, context)) {
      capture->invalid = true;
      result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  return result;
}

CUresult implicit_capture(Context& context) {
  const std::lock_guard lock(graph_mutex());
  const bool any =
      std::any_of(ongoing_captures().begin(), ongoing_captures().end(),
                  [&](const auto& capture) { return captures_blocking_stream(*capture, context); });
  return any ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

void abandon_capture(Stream& stream) {
  if (!stream.capturing.load()) {
    return;
  }
  Garbage garbage;  // dropped after the lock
  const std::lock_guard lock(graph_mutex());
  const std::shared_ptr<Capture> capture = stream.capture;
  if (!capture) {
    return;
  }
  capture->invalid = true;
  if (capture->origin == &stream) {
    finish_capture(capture);
    if (capture->owns_graph) {
      destroy_graph(capture->graph, garbage);
    }
    return;
  }
  capture->streams.erase(stream.shared_from_this());
  stream.capturing.store(false);
  stream.capture.reset();
}

}  // namespace simgpu
