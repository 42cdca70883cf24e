// The result of a runtime call, made from a code of the runtime or of the driver, and the thread's
// memory of the last one that failed.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

namespace simgpu::cudart {

class [[nodiscard]] Status {
 public:
  Status(cudaError_t code) : code_(code) {}  // NOLINT(google-explicit-constructor)
  // Since CUDA 10.1 both sides number their errors alike; the rest is in driver_code().
  Status(CUresult code) : code_(driver_code(code)) {}  // NOLINT(google-explicit-constructor)

  bool failed() const { return code_ != cudaSuccess; }
  cudaError_t code() const { return code_; }

 private:
  static cudaError_t driver_code(CUresult code) {
    return __builtin_expect(code == CUDA_SUCCESS, 1) ? cudaSuccess : translate(code);
  }
  static cudaError_t translate(CUresult code);

  cudaError_t code_;
};

// Remembers a failure as the calling thread's last error, and returns the code.
cudaError_t record_failure(cudaError_t code);
inline cudaError_t record(Status status) {
  return __builtin_expect(status.failed(), 0) ? record_failure(status.code()) : cudaSuccess;
}

// A fault of the device, after which its context only reports that fault.
bool is_sticky(cudaError_t code);

}  // namespace simgpu::cudart

// Leaves the function if `expression` failed.
#define SIMGPU_TRY(expression)                                     \
  do {                                                             \
    if (const simgpu::cudart::Status simgpu_status = (expression); \
        __builtin_expect(simgpu_status.failed(), 0)) {             \
      return simgpu_status;                                        \
    }                                                              \
  } while (false)
