// What CUDA 12 exports under names that CUDA 13 does not have.
#include "cudart/api.h"

namespace simgpu::cudart {

extern "C" {
cudaError_t cudaGetDeviceProperties_v2(cuda12::DeviceProperties*, int);
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*,
                                        cudaGraph_t*, const cudaGraphNode_t**, size_t*);
}

SIMGPU_RT(nothing, cudaGetDeviceProperties_v2, (cuda12::DeviceProperties * prop, int device),
          (prop, device)) {
  return cudaGetDeviceProperties(reinterpret_cast<cudaDeviceProp*>(prop), device);
}

// Without the edges, which came with CUDA 12.3.
SIMGPU_RT(nothing, cudaStreamGetCaptureInfo_v2,
          (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
           cudaGraph_t* graph, const cudaGraphNode_t** dependencies, size_t* count),
          (stream, status, id, graph, dependencies, count)) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}

}  // namespace simgpu::cudart
