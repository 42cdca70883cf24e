// Events.
#include <cstring>

#include "cudart/api.h"

namespace simgpu::cudart {

SIMGPU_RT(context, cudaEventCreate, (cudaEvent_t * event), (event)) {
  return g_driver.cuEventCreate(event, CU_EVENT_DEFAULT);
}

SIMGPU_RT(context, cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags),
          (event, flags)) {
  return g_driver.cuEventCreate(event, flags);
}

SIMGPU_RT(context, cudaEventDestroy, (cudaEvent_t event), (event)) {
  return g_driver.cuEventDestroy(event);
}

SIMGPU_RT_STREAM(context, cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
                 (event, stream)) {
  return calls.cuEventRecord(event, stream);
}

SIMGPU_RT_STREAM(context, cudaEventRecordWithFlags, _ptsz,
                 (cudaEvent_t event, cudaStream_t stream, unsigned flags), (event, stream, flags)) {
  return calls.cuEventRecordWithFlags(event, stream, flags);
}

SIMGPU_RT(context, cudaEventQuery, (cudaEvent_t event), (event)) {
  return g_driver.cuEventQuery(event);
}

SIMGPU_RT(context, cudaEventSynchronize, (cudaEvent_t event), (event)) {
  return g_driver.cuEventSynchronize(event);
}

SIMGPU_RT(context, cudaEventElapsedTime, (float* ms, cudaEvent_t start, cudaEvent_t end),
          (ms, start, end)) {
  return g_driver.cuEventElapsedTime(ms, start, end);
}

static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle));

SIMGPU_RT(context, cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
          (handle, event)) {
  return g_driver.cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(handle), event);
}

SIMGPU_RT(context, cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle),
          (event, handle)) {
  CUipcEventHandle shared;
  memcpy(&shared, &handle, sizeof shared);
  return g_driver.cuIpcOpenEventHandle(event, shared);
}

}  // namespace simgpu::cudart
