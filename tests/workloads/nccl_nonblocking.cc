// run: ranks=4 devices=4
// Communicators that never block the host: every call may say "in progress", the state is asked for
// until it is done. Creation, a group of operations, a split and the end go this way.
#include <nccl.h>

#include <chrono>
#include <thread>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr size_t kCount = 3000;

// Says how often it asked.
int wait_until_done(ncclComm_t comm) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (int asked = 1;; ++asked) {
    ncclResult_t state = ncclInternalError;
    NCCL_CHECK(ncclCommGetAsyncError(comm, &state));
    if (state != ncclInProgress) {
      NCCL_CHECK(state);
      return asked;
    }
    CHECK(std::chrono::steady_clock::now() < end, "the communicator is still in progress");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void check_begun(ncclResult_t result) {
  CHECK(result == ncclSuccess || result == ncclInProgress, "it began with '%s'",
        ncclGetErrorString(result));
}

void sum(ncclComm_t comm, cudaStream_t stream, int rank, int size) {
  const DeviceBuffer<float> a(std::vector<float>(kCount, static_cast<float>(rank)));
  const DeviceBuffer<float> b(std::vector<float>(kCount, 2));
  NCCL_CHECK(ncclGroupStart());
  NCCL_CHECK(ncclAllReduce(a.data(), a.data(), kCount, ncclFloat, ncclSum, comm, stream));
  NCCL_CHECK(ncclAllReduce(b.data(), b.data(), kCount, ncclFloat, ncclProd, comm, stream));
  check_begun(ncclGroupEnd());
  wait_until_done(comm);  // only now is everything on the stream
  CUDA_CHECK(cudaStreamSynchronize(stream));
  check_values("sum", a.values(), [&](size_t) { return size * (size - 1) / 2; });
  check_values("product", b.values(), [&](size_t) { return 1 << size; });
}

void end(ncclComm_t comm) {
  check_begun(ncclCommFinalize(comm));
  wait_until_done(comm);
  NCCL_CHECK(ncclCommDestroy(comm));
}

}  // namespace

int main() {
  select_device();
  const int rank = world_rank(), size = world_size();
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const ncclUniqueId id = shared_unique_id();
  if (rank == size - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the others must not wait inside
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const auto start = std::chrono::steady_clock::now();
  check_begun(ncclCommInitRankConfig(&comm, size, id, rank, &config));
  const std::chrono::duration<double> inside = std::chrono::steady_clock::now() - start;
  const int asked = wait_until_done(comm);
  CHECK(rank == size - 1 || asked > 1, "it was done at once, though a rank came late");
  sum(comm, stream, rank, size);

  // A child inherits that it does not block.
  ncclComm_t half = nullptr;
  check_begun(ncclCommSplit(comm, rank % 2, rank, &half, nullptr));
  wait_until_done(comm);
  wait_until_done(half);
  sum(half, stream, rank / 2, size / 2);
  end(half);
  end(comm);
  CUDA_CHECK(cudaStreamDestroy(stream));
  printf("nccl_nonblocking: rank %d was inside for %.4f s, asked %d times\n", rank, inside.count(),
         asked);
  return 0;
}
