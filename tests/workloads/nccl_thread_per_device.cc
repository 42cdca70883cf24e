// run: devices=4 name=one_process
// run: devices=4 ranks=2 name=two_processes
// A thread for each device, each with its own rank; in several processes the ranks of all make one
// communicator.
#include <nccl.h>

#include <thread>

#include "common/buffer.h"
#include "common/member.h"
#include "common/nccl_ranks.h"

namespace {

constexpr size_t kCount = 4096;
constexpr int kSteps = 20;

void run_rank(ncclUniqueId id, int rank, int size, int device) {
  Member member{rank, device, nullptr, nullptr};
  open_stream(member);
  NCCL_CHECK(ncclCommInitRank(&member.comm, size, id, rank));
  check_identity(member, size);
  const DeviceBuffer<int64_t> values(std::vector<int64_t>(kCount, 1));
  for (int step = 0; step < kSteps; ++step) {
    NCCL_CHECK(ncclAllReduce(values.data(), values.data(), kCount, ncclInt64, ncclSum, member.comm,
                             member.stream));
  }
  CUDA_CHECK(cudaStreamSynchronize(member.stream));
  int64_t expected = 1;
  for (int step = 0; step < kSteps; ++step) {
    expected *= size;
  }
  check_values("rank " + std::to_string(rank), values.values(), [&](size_t) { return expected; });
  close(member);
}

}  // namespace

int main() {
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  const int here = devices / world_size();
  CHECK(here > 0, "%d devices for %d processes", devices, world_size());
  const ncclUniqueId id = shared_unique_id();
  std::vector<std::thread> threads;
  for (int i = 0; i < here; ++i) {
    const int device = local_rank() * here + i;
    threads.emplace_back(run_rank, id, world_rank() * here + i, world_size() * here, device);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  printf("nccl_thread_per_device: %d threads of %d ranks\n", here, world_size() * here);
  return 0;
}
