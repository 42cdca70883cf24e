// run: ranks=2 devices=2 name=2
// run: ranks=4 devices=4 name=4
// Each rank sends to its right neighbour and receives from its left one, in one group; after as
// many rounds as there are ranks everybody has his own block again.
#include <nccl.h>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

void go_round(ncclComm_t comm, cudaStream_t stream, size_t count) {
  const int size = world_size(), rank = world_rank();
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  std::vector<int> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = rank * 100 + static_cast<int>(i % 100);
  }
  const DeviceBuffer<int> mine(values), next(count);
  int* from = mine.data();
  int* to = next.data();
  for (int round = 0; round < size; ++round) {
    NCCL_CHECK(ncclGroupStart());
    NCCL_CHECK(ncclSend(from, count, ncclInt32, right, comm, stream));
    NCCL_CHECK(ncclRecv(to, count, ncclInt32, left, comm, stream));
    NCCL_CHECK(ncclGroupEnd());
    std::swap(from, to);
    const int owner = (rank + size - 1 - round) % size;  // of the block that came
    int first = -1;
    CUDA_CHECK(cudaMemcpyAsync(&first, from, sizeof first, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CHECK(first == owner * 100, "round %d brought %d, not the block of rank %d", round, first,
          owner);
  }
  const DeviceBuffer<int>& last = size % 2 ? next : mine;
  check_values("my block", last.values(), [&](size_t i) { return values[i]; });
}

}  // namespace

int main() {
  select_device();
  const ncclComm_t comm = world_communicator();
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreate(&stream));
  // The last is more than any channel buffers: it flows while it is received.
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{3} << 20}) {
    go_round(comm, stream, count);
  }
  CUDA_CHECK(cudaStreamDestroy(stream));
  finish(comm);
  printf("nccl_ring_exchange: rank %d of %d\n", world_rank(), world_size());
  return 0;
}
