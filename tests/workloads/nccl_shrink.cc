// run: ranks=4 devices=4
// A healthy communicator loses a rank by agreement: those that stay make a smaller one, in which
// they are numbered anew, and the old one is used by all until the end.
#include <nccl.h>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

void check_sum(ncclComm_t comm, cudaStream_t stream, int value, int expected) {
  const DeviceBuffer<int> values(std::vector<int>(777, value));
  NCCL_CHECK(ncclAllReduce(values.data(), values.data(), 777, ncclInt32, ncclSum, comm, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  check_values("sum", values.values(), [&](size_t) { return expected; });
}

}  // namespace

int main() {
  select_device();
  const int rank = world_rank(), size = world_size();
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const ncclComm_t world = world_communicator();
  check_sum(world, stream, rank, size * (size - 1) / 2);
  int excluded = 1;
  if (rank != excluded) {
    ncclComm_t smaller = nullptr;
    NCCL_CHECK(ncclCommShrink(world, &excluded, 1, &smaller, nullptr, NCCL_SHRINK_DEFAULT));
    int new_rank = -1;
    NCCL_CHECK(ncclCommUserRank(smaller, &new_rank));
    CHECK(new_rank == (rank > excluded ? rank - 1 : rank), "rank %d became %d", rank, new_rank);
    check_sum(smaller, stream, rank, size * (size - 1) / 2 - excluded);
    finish(smaller);
  }
  check_sum(world, stream, 1, size);
  finish(world);
  CUDA_CHECK(cudaStreamDestroy(stream));
  printf("nccl_shrink: rank %d\n", rank);
  return 0;
}
