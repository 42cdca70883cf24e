// Two communicators that take memory when they are made and when they are first used: `nccl_memory
// CALLS`.  CALLS: calls that push older records out of a small ring.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include "common/nccl_ranks.h"

namespace {

ncclComm_t communicator_named(const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  ncclComm_t comm = nullptr;
  NCCL_CHECK(
      ncclCommInitRankConfig(&comm, world_size(), shared_unique_id(name), world_rank(), &config));
  return comm;
}

void reduce(ncclComm_t comm, float* data, size_t count) {
  NCCL_CHECK(ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, nullptr));
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2, "usage: nccl_memory CALLS");
  select_device();
  constexpr size_t kLarge = size_t{1} << 18;  // not by the tree
  float* data = nullptr;
  CUDA_CHECK(cudaMalloc(&data, kLarge * sizeof(float)));
  CUDA_CHECK(cudaMemset(data, 0, kLarge * sizeof(float)));
  ncclComm_t const dp = communicator_named("dp");
  ncclComm_t const tp = communicator_named("tp");
  reduce(dp, data, 16);
  NCCL_CHECK(ncclGroupStart());
  reduce(tp, data, 16);
  NCCL_CHECK(ncclGroupEnd());
  // For which of the two the memory is, nobody says.
  NCCL_CHECK(ncclGroupStart());
  reduce(dp, data, kLarge);
  reduce(tp, data, kLarge);
  NCCL_CHECK(ncclGroupEnd());
  CUDA_CHECK(cudaDeviceSynchronize());
  size_t free = 0;
  size_t total = 0;
  for (int i = 0; i < atoi(argv[1]); ++i) {
    CUDA_CHECK(cudaMemset(data, 0, 4));
  }
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  CUDA_CHECK(cudaDeviceSynchronize());
  fflush(stdout);
  _exit(0);
}
