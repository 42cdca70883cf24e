// User objects and the memory that graphs hold.
#include <cuda.h>

#include <climits>

#include "common/entry.h"
#include "cuda/graph.h"
#include "cuda/graph_memory.h"

using namespace simgpu;

namespace {

CUresult check_object(CUuserObject object, unsigned count) {
  const bool valid = object && object->references.load() > 0 && count > 0 && count <= INT_MAX;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned references,
                            unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  if (!out || !destroy || references == 0 || references > INT_MAX ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = new_user_object(data, destroy, references);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  SIMGPU_DRIVER_ENTER();
  SIMGPU_TRY(check_object(object, count));
  return retain(object, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  SIMGPU_DRIVER_ENTER();
  SIMGPU_TRY(check_object(object, count));
  return release(object, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                 unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  SIMGPU_TRY(check_object(object, count));
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  if (flags > CU_GRAPH_USER_OBJECT_MOVE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (flags != CU_GRAPH_USER_OBJECT_MOVE && !retain(object, count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graph->references->adopt(object, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  SIMGPU_DRIVER_ENTER();
  SIMGPU_TRY(check_object(object, count));
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  return graph->references->give_back(object, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void* value) {
  SIMGPU_DRIVER_ENTER();
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  if (!value) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return graph_memory_attribute(device, attribute, *static_cast<cuuint64_t*>(value));
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void* value) {
  SIMGPU_DRIVER_ENTER();
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  if (!value || *static_cast<cuuint64_t*>(value) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return graph_memory_reset_high(device, attribute);
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  graph_memory_trim(device);
  return CUDA_SUCCESS;
}
