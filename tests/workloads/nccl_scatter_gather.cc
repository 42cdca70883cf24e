// run: ranks=4 devices=4
// Scatter and gather made of sends and receives; each rank is the root once.  What a rank sends to
// itself is part of the same group.
#include <nccl.h>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr size_t kCount = 2000;

void scatter(const double* send, double* receive, int root, ncclComm_t comm, cudaStream_t stream) {
  NCCL_CHECK(ncclGroupStart());
  if (world_rank() == root) {
    for (int peer = 0; peer < world_size(); ++peer) {
      NCCL_CHECK(ncclSend(send + static_cast<size_t>(peer) * kCount, kCount, ncclDouble, peer, comm,
                          stream));
    }
  }
  NCCL_CHECK(ncclRecv(receive, kCount, ncclDouble, root, comm, stream));
  NCCL_CHECK(ncclGroupEnd());
}

void gather(const double* send, double* receive, int root, ncclComm_t comm, cudaStream_t stream) {
  NCCL_CHECK(ncclGroupStart());
  NCCL_CHECK(ncclSend(send, kCount, ncclDouble, root, comm, stream));
  if (world_rank() == root) {
    for (int peer = 0; peer < world_size(); ++peer) {
      NCCL_CHECK(ncclRecv(receive + static_cast<size_t>(peer) * kCount, kCount, ncclDouble, peer,
                          comm, stream));
    }
  }
  NCCL_CHECK(ncclGroupEnd());
}

}  // namespace

int main() {
  select_device();
  const ncclComm_t comm = world_communicator();
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const size_t all = kCount * static_cast<size_t>(world_size());
  for (int root = 0; root < world_size(); ++root) {
    std::vector<double> values(all);
    for (size_t i = 0; i < all; ++i) {
      values[i] = root * 1e6 + static_cast<double>(i);
    }
    const DeviceBuffer<double> send(values), part(kCount);
    const DeviceBuffer<double> back(std::vector<double>(all, -1));
    scatter(send.data(), part.data(), root, comm, stream);
    gather(part.data(), back.data(), root, comm, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    const size_t first = kCount * static_cast<size_t>(world_rank());
    check_values("my part", part.values(), [&](size_t i) { return values[first + i]; });
    check_values("all parts", back.values(),
                 [&](size_t i) { return world_rank() == root ? values[i] : -1.0; });
  }
  CUDA_CHECK(cudaStreamDestroy(stream));
  finish(comm);
  printf("nccl_scatter_gather: rank %d of %d\n", world_rank(), world_size());
  return 0;
}
