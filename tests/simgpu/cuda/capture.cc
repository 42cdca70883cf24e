#include "cuda/capture.h"

#include <algorithm>
#include <set>

#include "cuda/graph.h"
#include "cuda/launch.h"

namespace simgpu {

// What the next node of a stream depends on.  Two arrays, since programs are given pointers to
// them.
struct Frontier {
  std::vector<CUgraphNode> nodes;
  std::vector<CUgraphEdgeData> data;

  void assign(const std::vector<Edge>& edges) {
    nodes.clear();
    data.clear();
    std::for_each(edges.begin(), edges.end(), [this](const Edge& edge) { add(edge); });
  }
  void add(const Edge& edge) {
    if (std::find(nodes.begin(), nodes.end(), edge.node) == nodes.end()) {
      nodes.push_back(edge.node);
      data.push_back(edge.data);
    }
  }
  std::vector<Edge> edges() const {
    return edges_with_data(nodes.data(), data.data(), nodes.size());
  }
};

struct Capture {
  uint64_t id = 0;
  uint64_t thread = 0;  // that began it
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool invalid = false;
  bool ended = false;
  CUgraph graph = nullptr;
  bool owns_graph = true;
  Stream* origin = nullptr;
  std::map<std::shared_ptr<Stream>, Frontier> streams;  // cleared at the end: streams point back

  Frontier& frontier(Stream& stream) { return streams.at(stream.shared_from_this()); }
};

namespace {

// Ongoing captures; guarded by graph_mutex(), but for the count, which lets everybody else pass
// quickly.
std::vector<std::shared_ptr<Capture>>& ongoing() {
  static auto& captures = *new std::vector<std::shared_ptr<Capture>>;
  return captures;
}
std::atomic<int> g_ongoing{0};

thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

uint64_t this_thread() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t id = ++last;
  return id;
}

void join(const std::shared_ptr<Capture>& capture, const std::shared_ptr<Stream>& stream,
          const std::vector<Edge>& after) {
  stream->capture = capture;
  capture->streams[stream].assign(after);
  stream->capturing.store(true, std::memory_order_release);
}

CUresult invalidate(Capture& capture, CUresult reason) {
  const bool first = !std::exchange(capture.invalid, true);
  return first ? reason : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

// Lets go of all streams; whoever still has the capture (events) finds it ended.
void finish(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (const auto& [stream, frontier] : capture->streams) {
    stream->capturing.store(false, std::memory_order_release);
    stream->capture.reset();
  }
  capture->streams.clear();
  --capture->graph->captures;
  std::erase(ongoing(), capture);
  g_ongoing.fetch_sub(1);
}

// Every stream's last nodes must be behind, or be, the last nodes of the origin.
bool all_joined(Capture& capture) {
  std::vector<CUgraphNode> open = capture.frontier(*capture.origin).nodes;
  std::set<CUgraphNode> reached(open.begin(), open.end());
  while (!open.empty()) {
    CUgraphNode node = open.back();
    open.pop_back();
    for (const Edge& edge : node->dependencies) {
      if (reached.insert(edge.node).second) {
        open.push_back(edge.node);
      }
    }
  }
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const auto& entry) {
    const std::vector<CUgraphNode>& nodes = entry.second.nodes;
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](CUgraphNode node) { return reached.count(node) > 0; });
  });
}

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

CUresult check_begin(Stream& stream, CUstreamCaptureMode mode) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream.legacy) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return stream.capture ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

void begin(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode, CUgraph graph,
           bool owns_graph, const std::vector<Edge>& after) {
  static uint64_t last_id = 0;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id;
  capture->thread = this_thread();
  capture->mode = mode;
  capture->graph = graph;
  capture->owns_graph = owns_graph;
  capture->origin = stream.get();
  ++graph->captures;
  ongoing().push_back(capture);
  g_ongoing.fetch_add(1);
  join(capture, stream, after);
}

struct CapturedRecording {
  bool captured = false;  // in this capture, which may be over
  std::shared_ptr<Capture> capture;
  std::vector<CUgraphNode> after;
};

// Takes the event's lock, which may be held while its owner waits for room in a queue: never call
// this under graph_mutex().
CapturedRecording captured_recording(Event& event) {
  const std::lock_guard lock(event.mutex);
  const std::weak_ptr<Capture> none;
  const bool captured =
      event.captured_in.owner_before(none) || none.owner_before(event.captured_in);
  return {captured, event.captured_in.lock(), event.captured_after};
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
    content.attributes[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority = stream.priority;
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
  join(recording.capture, stream.shared_from_this(),
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

bool recorded_in_capture(Event& event) {
  return captured_recording(event).captured;
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
  if (g_ongoing.load() == 0 || t_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_SUCCESS;
  }
  const std::lock_guard lock(graph_mutex());
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Capture>& capture : ongoing()) {
    const bool forbids = capture->thread == this_thread()
                             ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                             : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                   t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (forbids) {
      capture->invalid = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return result;
}

CUresult forbid_legacy_while_capturing(Context& context) {
  if (g_ongoing.load() == 0) {
    return CUDA_SUCCESS;
  }
  const std::lock_guard lock(graph_mutex());
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Capture>& capture : ongoing()) {
    if (captures_blocking_stream(*capture, context)) {
      capture->invalid = true;
      result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  return result;
}

CUresult implicit_capture(Context& context) {
  const std::lock_guard lock(graph_mutex());
  const bool any = std::any_of(ongoing().begin(), ongoing().end(), [&](const auto& capture) {
    return captures_blocking_stream(*capture, context);
  });
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
    finish(capture);
    if (capture->owns_graph) {
      destroy_graph(capture->graph, garbage);
    }
    return;
  }
  capture->streams.erase(stream.shared_from_this());
  stream.capturing.store(false);
  stream.capture.reset();
}

CUresult begin_capture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode) {
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_begin(*stream, mode));
  begin(stream, mode, new_graph(), /*owns_graph=*/true, {});
  return CUDA_SUCCESS;
}

CUresult begin_capture_to_graph(const std::shared_ptr<Stream>& stream, CUgraph graph,
                                const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                                CUstreamCaptureMode mode) {
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_begin(*stream, mode));
  SIMGPU_TRY(check_graph(graph));
  if (count > 0 && !nodes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::vector<Edge> after = edges_with_data(nodes, data, count);
  SIMGPU_TRY(check_dependencies(graph, after, CU_GRAPH_NODE_TYPE_KERNEL));
  begin(stream, mode, graph, /*owns_graph=*/false, after);
  return CUDA_SUCCESS;
}

CUresult end_capture(Stream& stream, CUgraph* graph) {
  if (!graph) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Garbage garbage;  // dropped after the lock
  const std::lock_guard lock(graph_mutex());
  const std::shared_ptr<Capture> capture = stream.capture;
  if (!capture) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  if (capture->origin != &stream) {
    return invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const CUresult result = capture->invalid        ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                          : !all_joined(*capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                                  : CUDA_SUCCESS;
  finish(capture);
  *graph = result == CUDA_SUCCESS ? capture->graph : nullptr;
  if (result != CUDA_SUCCESS && capture->owns_graph) {
    destroy_graph(capture->graph, garbage);
  }
  return result;
}

CUresult capture_info(Stream& stream, CaptureInfo& info) {
  if (stream.legacy) {
    return implicit_capture(*stream.context);
  }
  if (!stream.capturing.load(std::memory_order_acquire)) {
    return CUDA_SUCCESS;
  }
  const std::lock_guard lock(graph_mutex());
  if (!stream.capture) {
    return CUDA_SUCCESS;
  }
  Capture& capture = *stream.capture;
  if (capture.invalid) {
    info.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_SUCCESS;
  }
  const Frontier& frontier = capture.frontier(stream);
  info = {CU_STREAM_CAPTURE_STATUS_ACTIVE,
          capture.id,
          capture.graph,
          frontier.nodes.data(),
          frontier.data.data(),
          frontier.nodes.size(),
          std::all_of(frontier.data.begin(), frontier.data.end(), is_default)};
  return CUDA_SUCCESS;
}

CUresult update_dependencies(Stream& stream, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                             size_t count, bool replace) {
  const std::lock_guard lock(graph_mutex());
  if (!stream.capture) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  Capture& capture = *stream.capture;
  if (capture.invalid) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (count > 0 && !nodes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::vector<Edge> edges = edges_with_data(nodes, data, count);
  SIMGPU_TRY(check_dependencies(capture.graph, edges, CU_GRAPH_NODE_TYPE_KERNEL));
  Frontier& frontier = capture.frontier(stream);
  if (replace) {
    frontier.assign({});
  }
  for (const Edge& edge : edges) {
    frontier.add(edge);
  }
  return CUDA_SUCCESS;
}

CUresult exchange_mode(CUstreamCaptureMode& mode) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(mode, t_mode);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
