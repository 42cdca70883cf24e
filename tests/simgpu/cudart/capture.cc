// Stream capture.
#include "cudart/api.h"

namespace simgpu::cudart {

static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));

SIMGPU_RT_STREAM(context, cudaStreamBeginCapture, _ptsz,
                 (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode)) {
  return calls.cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode));
}

SIMGPU_RT_STREAM(context, cudaStreamBeginCaptureToGraph, _ptsz,
                 (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                  const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode),
                 (stream, graph, dependencies, edges, count, mode)) {
  return calls.cuStreamBeginCaptureToGraph(stream, graph, dependencies,
                                           reinterpret_cast<const CUgraphEdgeData*>(edges), count,
                                           static_cast<CUstreamCaptureMode>(mode));
}

SIMGPU_RT_STREAM(context, cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t* graph),
                 (stream, graph)) {
  return calls.cuStreamEndCapture(stream, graph);
}

SIMGPU_RT_STREAM(context, cudaStreamIsCapturing, _ptsz,
                 (cudaStream_t stream, cudaStreamCaptureStatus* status), (stream, status)) {
  return calls.cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status));
}

SIMGPU_RT_STREAM(context, cudaStreamGetCaptureInfo, _ptsz,
                 (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                  cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                  const cudaGraphEdgeData** edges, size_t* count),
                 (stream, status, id, graph, dependencies, edges, count)) {
  cuuint64_t number = 0;
  SIMGPU_TRY(calls.cuStreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status),
                                          &number, graph, dependencies,
                                          reinterpret_cast<const CUgraphEdgeData**>(edges), count));
  if (id) {
    *id = number;
  }
  return cudaSuccess;
}

SIMGPU_RT_STREAM(context, cudaStreamUpdateCaptureDependencies, _ptsz,
                 (cudaStream_t stream, cudaGraphNode_t* dependencies,
                  const cudaGraphEdgeData* edges, size_t count, unsigned flags),
                 (stream, dependencies, edges, count, flags)) {
  return calls.cuStreamUpdateCaptureDependencies(
      stream, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges), count, flags);
}

SIMGPU_RT(context, cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode), (mode)) {
  return g_driver.cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode));
}

}  // namespace simgpu::cudart
