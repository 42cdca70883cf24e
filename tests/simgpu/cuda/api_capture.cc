// Both the current and the earlier versions of the functions are declared under their symbols'
// names.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "common/entry.h"
#include "cuda/capture.h"
#include "cuda/per_thread.h"

using namespace simgpu;

namespace {

CUresult begin(CUstream handle, CUstreamCaptureMode mode) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  return begin_capture(stream, mode);
}

CUresult info_of(CUstream handle, CaptureInfo& info) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  return capture_info(*stream, info);
}

// Null where the caller did not ask.
template <class Value>
void give(Value* out, Value value) {
  if (out) {
    *out = value;
  }
}

CUresult give_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                   const CUgraphNode** nodes, const CUgraphEdgeData** data, size_t* count) {
  CaptureInfo info;
  if (!status || (data && !nodes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(info_of(handle, info));
  if (nodes && !data && !info.default_data) {
    return CUDA_ERROR_LOSSY_QUERY;
  }
  *status = info.status;
  if (info.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    give(id, static_cast<cuuint64_t>(info.id));
    give(graph, info.graph);
    give(nodes, info.nodes);
    give(data, info.data);
    give(count, info.count);
  }
  return CUDA_SUCCESS;
}

CUresult update(CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                unsigned flags) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return update_dependencies(*stream, nodes, data, count,
                             flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

}  // namespace

CUresult cuStreamBeginCapture(CUstream handle) {
  SIMGPU_DRIVER_ENTER();
  return begin(handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  SIMGPU_DRIVER_ENTER();
  return begin(handle, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode* nodes,
                                     const CUgraphEdgeData* data, size_t count,
                                     CUstreamCaptureMode mode) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  return begin_capture_to_graph(stream, graph, nodes, data, count, mode);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  return end_capture(*stream, graph);
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  SIMGPU_DRIVER_ENTER();
  CaptureInfo info;
  if (!status) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(info_of(handle, info));
  *status = info.status;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes,
                                   const CUgraphEdgeData** data, size_t* count) {
  SIMGPU_DRIVER_ENTER();
  return give_info(handle, status, id, graph, nodes, data, count);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  SIMGPU_DRIVER_ENTER();
  return give_info(handle, status, id, graph, nodes, nullptr, count);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  SIMGPU_DRIVER_ENTER();
  return give_info(handle, status, id, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* nodes,
                                              const CUgraphEdgeData* data, size_t count,
                                              unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  return update(handle, nodes, data, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* nodes, size_t count,
                                           unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  return update(handle, nodes, nullptr, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  SIMGPU_DRIVER_ENTER();
  return mode ? exchange_mode(*mode) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_PER_THREAD(cuStreamBeginCapture, cuStreamBeginCapture_ptsz);
SIMGPU_PER_THREAD(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz);
SIMGPU_PER_THREAD(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz);
SIMGPU_PER_THREAD(cuStreamEndCapture, cuStreamEndCapture_ptsz);
SIMGPU_PER_THREAD(cuStreamIsCapturing, cuStreamIsCapturing_ptsz);
SIMGPU_PER_THREAD(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz);
SIMGPU_PER_THREAD(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz);
SIMGPU_PER_THREAD(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz);
SIMGPU_PER_THREAD(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz);
SIMGPU_PER_THREAD(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz);
