// run: ranks=2 devices=2 name=buffers -- buffers
// run: ranks=4 devices=4 name=windows -- windows
// Collectives on memory that NCCL allocated and that is registered: with one communicator, or as a
// window of all ranks.
#include <nccl.h>

#include <cstring>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr size_t kCount = 1 << 16;
constexpr size_t kBytes = kCount * sizeof(float);

float* allocate() {
  void* memory = nullptr;
  NCCL_CHECK(ncclMemAlloc(&memory, kBytes));
  return static_cast<float*>(memory);
}

void fill(float* values, float value, cudaStream_t stream) {
  const std::vector<float> host(kCount, value);
  CUDA_CHECK(cudaMemcpyAsync(values, host.data(), kBytes, cudaMemcpyHostToDevice, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

void check(const float* values, double expected) {
  std::vector<float> host(kCount);
  CUDA_CHECK(cudaMemcpy(host.data(), values, kBytes, cudaMemcpyDeviceToHost));
  check_values("sum", host, [&](size_t) { return expected; });
}

// Out of place, in place, and a part that does not begin where the buffer begins.
void reduce(float* send, float* receive, ncclComm_t comm, cudaStream_t stream) {
  const int size = world_size();
  const int sum = size * (size + 1) / 2;
  for (int round = 0; round < 3; ++round) {
    fill(send, static_cast<float>(world_rank() + 1), stream);
    NCCL_CHECK(ncclAllReduce(send, receive, kCount, ncclFloat, ncclSum, comm, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    check(receive, sum);
    NCCL_CHECK(ncclAllReduce(send, send, kCount / 2, ncclFloat, ncclSum, comm, stream));
    NCCL_CHECK(ncclAllReduce(send + kCount / 2, send + kCount / 2, kCount / 2, ncclFloat, ncclSum,
                             comm, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    check(send, sum);
  }
}

void with_buffers(ncclComm_t comm, cudaStream_t stream) {
  float* const send = allocate();
  float* const receive = allocate();
  void *send_handle = nullptr, *receive_handle = nullptr;
  NCCL_CHECK(ncclCommRegister(comm, send, kBytes, &send_handle));
  NCCL_CHECK(ncclCommRegister(comm, receive, kBytes, &receive_handle));
  reduce(send, receive, comm, stream);
  NCCL_CHECK(ncclCommDeregister(comm, send_handle));
  NCCL_CHECK(ncclCommDeregister(comm, receive_handle));
  NCCL_CHECK(ncclMemFree(send));
  NCCL_CHECK(ncclMemFree(receive));
}

void with_windows(ncclComm_t comm, cudaStream_t stream) {
  float* const send = allocate();
  float* const receive = allocate();
  ncclWindow_t send_window = nullptr, receive_window = nullptr;
  NCCL_CHECK(ncclCommWindowRegister(comm, send, kBytes, &send_window, NCCL_WIN_COLL_SYMMETRIC));
  NCCL_CHECK(
      ncclCommWindowRegister(comm, receive, kBytes, &receive_window, NCCL_WIN_COLL_SYMMETRIC));
  reduce(send, receive, comm, stream);
  NCCL_CHECK(ncclCommWindowDeregister(comm, send_window));
  NCCL_CHECK(ncclCommWindowDeregister(comm, receive_window));
  NCCL_CHECK(ncclMemFree(send));
  NCCL_CHECK(ncclMemFree(receive));
}

}  // namespace

int main(int argc, char** argv) {
  select_device();
  const ncclComm_t comm = world_communicator();
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const bool windows = argc > 1 && !strcmp(argv[1], "windows");
  (windows ? with_windows : with_buffers)(comm, stream);
  CUDA_CHECK(cudaStreamDestroy(stream));
  finish(comm);
  printf("nccl_registered_buffers: rank %d of %d\n", world_rank(), world_size());
  return 0;
}
