// A job with debug information that waits in one call for ever: arguments KIND NUMBER, where
// nothing but its caller's code tells what it has passed.
#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "common/check.h"
#include "common/check_nccl.h"

namespace {

// The number is needed afterwards, so the caller keeps it where the callee must give it back.
[[gnu::noinline]] void reduce(float* data, size_t count, ncclComm_t comm, cudaStream_t stream) {
  NCCL_CHECK(ncclAllReduce(data, data, count, ncclFloat, ncclMax, comm, stream));
  printf("%zu\n", count);
}

[[gnu::noinline]] void copy(float* to, const float* from, size_t bytes) {
  CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  printf("%zu\n", bytes);
}

// It is not needed afterwards: nothing has to keep it.
[[gnu::noinline]] void forget(float* to, const float* from, size_t bytes) {
  CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

void wait_for_ever(void*) {
  while (true) {
    pause();
  }
}

ncclComm_t communicator_of_two() {
  ncclUniqueId id;
  NCCL_CHECK(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  std::thread([id] {
    ncclComm_t other = nullptr;
    CUDA_CHECK(cudaSetDevice(1));
    NCCL_CHECK(ncclCommInitRank(&other, 2, id, 1));
    wait_for_ever(nullptr);
  }).detach();
  NCCL_CHECK(ncclCommInitRank(&comm, 2, id, 0));
  return comm;
}

}  // namespace

int main(int, char** arguments) {
  const std::string kind = arguments[1];
  const size_t number = strtoull(arguments[2], nullptr, 10);
  float* data = nullptr;
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaMalloc(&data, 1 << 20));
  CUDA_CHECK(cudaStreamCreate(&stream));
  if (kind == "reduce") {
    const ncclComm_t comm = communicator_of_two();
    puts("ready");
    fflush(stdout);
    reduce(data, number, comm, stream);
    return 0;
  }
  CUDA_CHECK(cudaLaunchHostFunc(stream, wait_for_ever, nullptr));
  puts("ready");
  fflush(stdout);
  auto* const to = static_cast<float*>(malloc(1 << 20));
  (kind == "copy" ? copy : forget)(to, data, number);
  return 0;
}
