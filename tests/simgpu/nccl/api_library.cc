// What belongs to no communicator: version, error texts, groups, memory.
#include "nccl/api.h"
#include "nccl/debug.h"
#include "nccl/group.h"

using namespace simgpu::nccl;

namespace {
constexpr unsigned kSimulationMagic = 0x74685283;
}

SIMGPU_NCCL_EXPORT(ncclGetVersion);
ncclResult_t ncclGetVersion(int* version) {
  SIMGPU_ENTER(ncclResult_t);
  if (!version) {
    return ncclInvalidArgument;
  }
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

SIMGPU_NCCL_EXPORT(ncclGetErrorString);
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

SIMGPU_NCCL_EXPORT(ncclGetLastError);
const char* ncclGetLastError(ncclComm_t) {
  return last_error();
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
SIMGPU_NCCL_EXPORT(ncclResetDebugInit);
void ncclResetDebugInit() {
  reload_debug_level();
}
#pragma GCC diagnostic pop

SIMGPU_NCCL_EXPORT(ncclGroupStart);
ncclResult_t ncclGroupStart() {
  SIMGPU_ENTER(ncclResult_t);
  group_start();
  return ncclSuccess;
}

SIMGPU_NCCL_EXPORT(ncclGroupEnd);
ncclResult_t ncclGroupEnd() {
  SIMGPU_ENTER(ncclResult_t);
  return group_end();
}

// SIMGPU_DIFFERS(ncclGroupSimulateEnd): the estimate is a constant per kernel and per byte
SIMGPU_NCCL_EXPORT(ncclGroupSimulateEnd);
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* sim_info) {
  SIMGPU_ENTER(ncclResult_t);
  if (sim_info && sim_info->magic != kSimulationMagic) {
    warn("ncclSimInfo_t is not initialized via NCCL_SIM_INFO_INITIALIZER");
    return group_fail(ncclInvalidArgument);
  }
  float estimated_us = NCCL_UNDEF_FLOAT;
  const ncclResult_t result = group_simulate(estimated_us);
  if (result == ncclSuccess && sim_info) {
    sim_info->estimatedTime = estimated_us;
  }
  return result;
}

// SIMGPU_DIFFERS(ncclMemAlloc): cudaMalloc, as the real one does on devices without virtual memory
SIMGPU_NCCL_EXPORT(ncclMemAlloc);
ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  SIMGPU_ENTER(ncclResult_t);
  if (!ptr) {
    warn("ncclMemAlloc : ptr argument is NULL");
    return ncclInvalidArgument;
  }
  return cudaMalloc(ptr, size) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

SIMGPU_NCCL_EXPORT(ncclMemFree);
ncclResult_t ncclMemFree(void* ptr) {
  SIMGPU_ENTER(ncclResult_t);
  return cudaFree(ptr) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
