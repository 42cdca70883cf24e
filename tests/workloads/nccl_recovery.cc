// run: ranks=4 devices=4 name=reinit -- reinit
// run: ranks=4 devices=4 name=shrink -- shrink
// run: ranks=4 devices=4 name=revoke -- revoke
// run: ranks=4 devices=4 killed=3 name=killed_reinit -- reinit kill
// run: ranks=4 devices=4 killed=3 name=killed_shrink -- shrink kill
// The last rank fails: it stays away from a collective, or is killed.  The others notice that
// theirs does not end, and go on without it: they abort and begin anew, or shrink the communicator,
// with or without revoking it first.
#include <nccl.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr size_t kCount = 1000;

struct Job {
  std::string way;
  int rank = world_rank();
  int size = world_size();
  cudaStream_t stream = nullptr;
};

// Of a communicator whose ranks are the first `size` ones of the world.
void train(const Job& job, ncclComm_t comm, int size, int steps) {
  for (int step = 0; step < steps; ++step) {
    const DeviceBuffer<int> values(std::vector<int>(kCount, job.rank + step));
    NCCL_CHECK(
        ncclAllReduce(values.data(), values.data(), kCount, ncclInt32, ncclSum, comm, job.stream));
    CUDA_CHECK(cudaStreamSynchronize(job.stream));
    check_values("step " + std::to_string(step), values.values(),
                 [&](size_t) { return size * (size - 1) / 2 + size * step; });
  }
}

bool ends_within(cudaStream_t stream, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) {
      return true;
    }
    CUDA_EXPECT(cudaErrorNotReady, state);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

ncclComm_t begin_anew(const Job& job, ncclComm_t broken) {
  NCCL_CHECK(ncclCommAbort(broken));
  CUDA_CHECK(cudaStreamSynchronize(job.stream));
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = shared_unique_id("second_unique_id");
  NCCL_CHECK(ncclCommInitRank(&comm, job.size - 1, id, job.rank));
  return comm;
}

ncclComm_t shrink(const Job& job, ncclComm_t broken) {
  int flags = NCCL_SHRINK_ABORT;
  if (job.way == "revoke") {
    NCCL_CHECK(ncclCommRevoke(broken, NCCL_REVOKE_DEFAULT));
    flags = NCCL_SHRINK_DEFAULT;
  }
  int excluded = job.size - 1;
  ncclComm_t comm = nullptr;
  NCCL_CHECK(ncclCommShrink(broken, &excluded, 1, &comm, nullptr, flags));
  CUDA_CHECK(cudaStreamSynchronize(job.stream));
  NCCL_CHECK(ncclCommAbort(broken));
  return comm;
}

void survive(const Job& job, ncclComm_t comm) {
  const DeviceBuffer<int> values(std::vector<int>(kCount, 1));
  NCCL_CHECK(
      ncclAllReduce(values.data(), values.data(), kCount, ncclInt32, ncclSum, comm, job.stream));
  CHECK(!ends_within(job.stream, std::chrono::milliseconds(300)),
        "the collective ended without the last rank");
  const ncclComm_t smaller = job.way == "reinit" ? begin_anew(job, comm) : shrink(job, comm);
  int rank = -1, size = -1;
  NCCL_CHECK(ncclCommUserRank(smaller, &rank));
  NCCL_CHECK(ncclCommCount(smaller, &size));
  CHECK(rank == job.rank && size == job.size - 1, "rank %d of %d after recovery", rank, size);
  train(job, smaller, size, 10);
  finish(smaller);
  printf("nccl_recovery: rank %d went on as one of %d\n", job.rank, size);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc > 1, "nccl_recovery reinit|shrink|revoke [kill]");
  select_device();
  Job job;
  job.way = argv[1];
  CUDA_CHECK(cudaStreamCreateWithFlags(&job.stream, cudaStreamNonBlocking));
  const ncclComm_t comm = world_communicator();
  train(job, comm, job.size, 5);
  if (job.rank < job.size - 1) {
    survive(job, comm);
  } else if (argc > 2) {
    raise(SIGKILL);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    NCCL_CHECK(ncclCommAbort(comm));
  }
  CUDA_CHECK(cudaStreamDestroy(job.stream));
  return 0;
}
