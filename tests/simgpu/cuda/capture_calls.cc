// The calls that begin, end, and look into captures.
#include <algorithm>
#include <set>
#include <utility>

#include "cuda/capture.h"
#include "cuda/capture_state.h"
#include "cuda/graph.h"

namespace simgpu {

void Frontier::assign(const std::vector<Edge>& edges) {
  nodes.clear();
  data.clear();
  std::for_each(edges.begin(), edges.end(), [this](const Edge& edge) { add(edge); });
}

void Frontier::add(const Edge& edge) {
  if (std::find(nodes.begin(), nodes.end(), edge.node) == nodes.end()) {
    nodes.push_back(edge.node);
    data.push_back(edge.data);
  }
}

std::vector<Edge> Frontier::edges() const {
  return edges_with_data(nodes.data(), data.data(), nodes.size());
}

std::vector<std::shared_ptr<Capture>>& ongoing_captures() {
  static auto& captures = *new std::vector<std::shared_ptr<Capture>>;
  return captures;
}

namespace {
std::atomic<int> g_ongoing{0};
}

bool any_capture() {
  return g_ongoing.load() > 0;
}

uint64_t capture_thread() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t id = ++last;
  return id;
}

CUstreamCaptureMode& capture_mode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

void join_capture(const std::shared_ptr<Capture>& capture, const std::shared_ptr<Stream>& stream,
                  const std::vector<Edge>& after) {
  stream->capture = capture;
  capture->streams[stream].assign(after);
  stream->capturing.store(true, std::memory_order_release);
}

CUresult invalidate(Capture& capture, CUresult reason) {
  const bool first = !std::exchange(capture.invalid, true);
  return first ? reason : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

void start_capture(const std::shared_ptr<Capture>& capture) {
  ++capture->graph->captures;
  ongoing_captures().push_back(capture);
  g_ongoing.fetch_add(1);
}

void finish_capture(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (const auto& [stream, frontier] : capture->streams) {
    stream->capturing.store(false, std::memory_order_release);
    stream->capture.reset();
  }
  capture->streams.clear();
  --capture->graph->captures;
  std::erase(ongoing_captures(), capture);
  g_ongoing.fetch_sub(1);
}

namespace {

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
  capture->thread = capture_thread();
  capture->mode = mode;
  capture->graph = graph;
  capture->owns_graph = owns_graph;
  capture->origin = stream.get();
  start_capture(capture);
  join_capture(capture, stream, after);
}

}  // namespace

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
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != capture_thread()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const CUresult result = capture->invalid        ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                          : !all_joined(*capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                                  : CUDA_SUCCESS;
  finish_capture(capture);
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
  std::swap(mode, capture_mode());
  return CUDA_SUCCESS;
}

}  // namespace simgpu
