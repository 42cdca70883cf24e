// run: ranks=4 devices=4
// All-to-all with different amounts, by grouped sends and receives: rank r sends r + p + 1 times
// the unit to rank p, as experts of a mixture do it.  Rank 0 sends nothing to rank 1: a count of 0
// is a call that does nothing.
#include <nccl.h>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr size_t kUnit = 500;

size_t amount(int from, int to) {
  return from == 0 && to == 1 ? 0 : kUnit * static_cast<size_t>(from + to + 1);
}
float value(int from, int to, size_t i) {
  return static_cast<float>(from * 10 + to) + static_cast<float>(i % 64) / 64;
}

// Offsets of the blocks of all peers in a buffer, and its size at the end.
template <class Amount>
std::vector<size_t> offsets(int size, Amount amount_of) {
  std::vector<size_t> out{0};
  for (int peer = 0; peer < size; ++peer) {
    out.push_back(out.back() + amount_of(peer));
  }
  return out;
}

void exchange(ncclComm_t comm, cudaStream_t stream, int rank, int size) {
  const auto sends = offsets(size, [&](int peer) { return amount(rank, peer); });
  const auto receives = offsets(size, [&](int peer) { return amount(peer, rank); });
  std::vector<float> values(sends.back());
  for (int peer = 0; peer < size; ++peer) {
    const size_t start = sends[static_cast<size_t>(peer)];
    for (size_t i = 0; i < amount(rank, peer); ++i) {
      values[start + i] = value(rank, peer, i);
    }
  }
  const DeviceBuffer<float> send(values);
  const DeviceBuffer<float> receive(std::vector<float>(receives.back(), -1));
  NCCL_CHECK(ncclGroupStart());
  for (int peer = 0; peer < size; ++peer) {
    const auto p = static_cast<size_t>(peer);
    NCCL_CHECK(ncclSend(send.data() + sends[p], amount(rank, peer), ncclFloat, peer, comm, stream));
    NCCL_CHECK(
        ncclRecv(receive.data() + receives[p], amount(peer, rank), ncclFloat, peer, comm, stream));
  }
  NCCL_CHECK(ncclGroupEnd());
  CUDA_CHECK(cudaStreamSynchronize(stream));
  const std::vector<float> got = receive.values();
  for (int peer = 0; peer < size; ++peer) {
    check_values("from rank " + std::to_string(peer),
                 got.data() + receives[static_cast<size_t>(peer)], amount(peer, rank),
                 [&](size_t i) { return value(peer, rank, i); });
  }
}

}  // namespace

int main() {
  select_device();
  const ncclComm_t comm = world_communicator();
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int round = 0; round < 3; ++round) {
    exchange(comm, stream, world_rank(), world_size());
  }
  CUDA_CHECK(cudaStreamDestroy(stream));
  finish(comm);
  printf("nccl_all_to_all: rank %d of %d\n", world_rank(), world_size());
  return 0;
}
