// What is known about ongoing captures.  Guarded by graph_mutex(), unless a line says otherwise.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "cuda/graph.h"
#include "cuda/state.h"

namespace simgpu {

// What the next node of a stream depends on.  Two arrays, since programs are given pointers to
// them.
struct Frontier {
  std::vector<CUgraphNode> nodes;
  std::vector<CUgraphEdgeData> data;

  void assign(const std::vector<Edge>& edges);
  void add(const Edge& edge);  // unless it is there
  std::vector<Edge> edges() const;
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

std::vector<std::shared_ptr<Capture>>& ongoing_captures();
// Lets everybody else pass quickly.  Needs no lock.
bool any_capture();

// This thread's number, and its mode for potentially unsafe calls.  Need no lock.
uint64_t capture_thread();
CUstreamCaptureMode& capture_mode();

// The stream takes part in the capture from here on.
void join_capture(const std::shared_ptr<Capture>& capture, const std::shared_ptr<Stream>& stream,
                  const std::vector<Edge>& after);
// Returns `reason`, or that the capture was invalid before.
CUresult invalidate(Capture& capture, CUresult reason);
void start_capture(const std::shared_ptr<Capture>& capture);
// Lets go of all streams; whoever still has the capture (events) finds it ended.
void finish_capture(const std::shared_ptr<Capture>& capture);

}  // namespace simgpu
