#include "cudart/status.h"

#include <algorithm>
#include <iterator>

#include "cudart/api.h"

namespace simgpu::cudart {
namespace {

struct ErrorText {
  int code;
  const char* name;
  const char* text;
};

// In ascending order of the code, as the header lists them.
constexpr ErrorText kErrors[] = {
#define ERROR(name, text) {name, #name, text},
#include "cudart/errors.def"
#undef ERROR
};

// Takes any number: programs ask about codes of other versions too.
const ErrorText* find_error(int code) {
  const ErrorText* found =
      std::lower_bound(std::begin(kErrors), std::end(kErrors), code,
                       [](const ErrorText& error, int wanted) { return error.code < wanted; });
  return found != std::end(kErrors) && found->code == code ? found : nullptr;
}

// A sticky error outlives cudaGetLastError until the device is reset.
cudaError_t take_last_error(bool reset) {
  ThreadState& thread = t_thread;
  const cudaError_t error = thread.last_error;
  if (is_sticky(error)) {
    if (thread.error_generation == g_generation.load(std::memory_order_acquire)) {
      return error;
    }
    thread.last_error = cudaSuccess;
    return cudaSuccess;
  }
  if (reset) {
    thread.last_error = cudaSuccess;
  }
  return error;
}

}  // namespace

// Codes of the driver that the runtime does not have.
cudaError_t Status::translate(CUresult code) {
  switch (code) {
    case CUDA_ERROR_CONTEXT_ALREADY_CURRENT:
      return cudaErrorIncompatibleDriverContext;
    default:
      break;
  }
  return find_error(code) ? static_cast<cudaError_t>(code) : cudaErrorUnknown;
}

cudaError_t record_failure(cudaError_t code) {
  t_thread.last_error = code;
  t_thread.error_generation = g_generation.load(std::memory_order_acquire);
  return code;
}

bool is_sticky(cudaError_t code) {
  switch (code) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

extern "C" cudaError_t cudaGetLastError() {
  SIMGPU_RT_ENTER();
  return take_last_error(true);
}

extern "C" cudaError_t cudaPeekAtLastError() {
  SIMGPU_RT_ENTER();
  return take_last_error(false);
}

extern "C" const char* cudaGetErrorName(cudaError_t error) {
  static constinit Entry entry{__func__};
  (void)entry.enter();
  const ErrorText* found = find_error(error);
  return found ? found->name : "unrecognized error code";
}

extern "C" const char* cudaGetErrorString(cudaError_t error) {
  static constinit Entry entry{__func__};
  (void)entry.enter();
  const ErrorText* found = find_error(error);
  return found ? found->text : "unrecognized error code";
}

}  // namespace simgpu::cudart
