// run: ranks=4 devices=4
// Two ranks take in two more (NCCL 2.29).  All make a communicator of the odd ones from the grown
// one, and suspend and resume that.
#include <nccl.h>

#include "common/buffer.h"
#include "common/nccl_ranks.h"
#include "interpose/calls/nccl_later.h"

namespace {

constexpr int kFirst = 2;  // ranks before it grows

void check_sum(ncclComm_t comm, cudaStream_t stream, int value, int expected) {
  const DeviceBuffer<int> values(std::vector<int>(777, value));
  NCCL_CHECK(ncclAllReduce(values.data(), values.data(), 777, ncclInt32, ncclSum, comm, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  check_values("sum", values.values(), [&](size_t) { return expected; });
}

ncclComm_t grown(int rank, int size, cudaStream_t stream) {
  ncclComm_t before = nullptr, after = nullptr;
  ncclUniqueId id;
  if (rank >= kFirst) {
    fetch("growth", &id, sizeof id);
    NCCL_CHECK(ncclCommGrow(nullptr, size, &id, rank, &after, nullptr));
    return after;
  }
  const ncclUniqueId first = shared_unique_id("first");
  NCCL_CHECK(ncclCommInitRank(&before, kFirst, first, rank));
  check_sum(before, stream, rank, 1);
  if (rank == 0) {
    NCCL_CHECK(ncclCommGetUniqueId(before, &id));
    publish("growth", &id, sizeof id);
  }
  NCCL_CHECK(ncclCommGrow(before, size, rank == 0 ? &id : nullptr, -1, &after, nullptr));
  finish(before);
  return after;
}

}  // namespace

int main() {
  select_device();
  const int rank = world_rank(), size = world_size();
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const ncclComm_t world = grown(rank, size, stream);
  int new_rank = -1;
  NCCL_CHECK(ncclCommUserRank(world, &new_rank));
  CHECK(new_rank == rank, "rank %d became %d", rank, new_rank);
  check_sum(world, stream, rank, size * (size - 1) / 2);
  ncclComm_t half = nullptr;
  NCCL_CHECK(ncclCommSplit(world, rank % 2, rank, &half, nullptr));
  CHECK(ncclCommResume(half) == ncclInvalidUsage, "resumed what was not suspended");
  NCCL_CHECK(ncclCommSuspend(half, 1));
  NCCL_CHECK(ncclCommResume(half));
  check_sum(half, stream, 1, size / 2);
  finish(half);
  finish(world);
  CUDA_CHECK(cudaStreamDestroy(stream));
  printf("nccl_grow: rank %d\n", rank);
  return 0;
}
