// run: ranks=4 devices=4
// Many ranks meet faster with several unique ids: here every second rank makes one, and all get all
// of them in the same order.
#include <nccl.h>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

int main() {
  select_device();
  const int rank = world_rank(), size = world_size();
  std::vector<ncclUniqueId> ids;
  for (int root = 0; root < size; root += 2) {
    ids.push_back(shared_unique_id("unique_id." + std::to_string(root), root));
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = nullptr;
  NCCL_CHECK(ncclCommInitRankScalable(&comm, size, rank, static_cast<int>(ids.size()), ids.data(),
                                      &config));
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const DeviceBuffer<uint8_t> mine(std::vector<uint8_t>{static_cast<uint8_t>(rank + 40)});
  const DeviceBuffer<uint8_t> all(static_cast<size_t>(size));
  NCCL_CHECK(ncclAllGather(mine.data(), all.data(), 1, ncclUint8, comm, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  check_values("ranks", all.values(), [](size_t i) { return i + 40; });
  CUDA_CHECK(cudaStreamDestroy(stream));
  finish(comm);
  printf("nccl_scalable_init: rank %d, %zu ids\n", rank, ids.size());
  return 0;
}
