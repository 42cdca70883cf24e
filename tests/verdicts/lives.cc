// How communicators begin and end where one rank makes a mistake: `lives NAME RANK`. RANK -1:
// nobody does, the healthy twin.  The ranks then go on as if nothing were, until they hang or are
// through.
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr int kSteps = 5;

struct Job {
  std::string mistake;
  bool culprit = false;
  bool healthy = false;  // there is no culprit
  cudaStream_t stream = nullptr;
  float* from = nullptr;
  float* to = nullptr;
};

bool refused(ncclResult_t result) {
  return result != ncclSuccess && result != ncclInProgress;
}

void sum(const Job& job, ncclComm_t comm, size_t count = 1024) {
  NCCL_CHECK(ncclAllReduce(job.from, job.to, count, ncclFloat, ncclSum, comm, job.stream));
}
void step(const Job& job, ncclComm_t comm) {
  sum(job, comm);
  CUDA_CHECK(cudaStreamSynchronize(job.stream));
}
void steps(const Job& job, ncclComm_t comm) {
  for (int number = 0; number < kSteps; ++number) {
    step(job, comm);
  }
}

[[noreturn]] void leave() {
  printf("done\n");
  fflush(stdout);
  _exit(0);
}
[[noreturn]] void look_at_files() {
  for (;;) {
    usleep(100000);
  }
}

ncclComm_t split(ncclComm_t parent, int color, const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  ncclComm_t child = nullptr;
  NCCL_CHECK(ncclCommSplit(parent, color, world_rank(), &child, &config));
  return child;
}

// What its rank, its size, its id or its device is computed from is wrong.
void begin(const Job& job) {
  const std::string& mistake = job.mistake;
  ncclUniqueId id = shared_unique_id();
  int size = world_size();
  int rank = world_rank();
  if (job.culprit && mistake == "init-size") {
    --size;
  } else if (job.culprit && mistake == "init-rank") {
    rank = (rank + 1) % size;
  } else if (job.culprit && mistake == "init-id") {
    NCCL_CHECK(ncclGetUniqueId(&id));
  } else if (job.culprit && mistake == "init-device") {
    CUDA_CHECK(cudaSetDevice((local_rank() + 1) % size));
  } else if (job.culprit && mistake == "init-missing") {
    look_at_files();
  }
  ncclComm_t comm = nullptr;
  if (refused(ncclCommInitRank(&comm, size, id, rank))) {
    _exit(1);
  }
  steps(job, comm);
}

void end(const Job& job) {
  ncclComm_t comm = world_communicator();
  steps(job, comm);
  if (job.culprit && job.mistake == "destroy") {
    NCCL_CHECK(ncclCommDestroy(comm));
    look_at_files();
  } else if (job.culprit && job.mistake == "use-after-abort") {
    NCCL_CHECK(ncclCommAbort(comm));
    (void)ncclAllReduce(job.from, job.to, 1024, ncclFloat, ncclSum, comm, job.stream);
    look_at_files();
  }
  step(job, comm);
  if (job.mistake == "finalize") {
    if (job.culprit) {
      look_at_files();
    }
    NCCL_CHECK(ncclCommFinalize(comm));
    NCCL_CHECK(ncclCommDestroy(comm));
  } else if (job.mistake == "leaked") {
    const ncclComm_t other = split(comm, 0, "other");
    steps(job, other);
    if (!job.culprit) {
      NCCL_CHECK(ncclCommDestroy(other));
    }
    NCCL_CHECK(ncclCommDestroy(comm));
    exit(0);
  }
}

void wait_until_done(ncclComm_t comm) {
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress; usleep(100)) {
    NCCL_CHECK(ncclCommGetAsyncError(comm, &state));
  }
}

// Its first call comes while the others are still on their way to the communicator.
void unpolled(const Job& job) {
  const ncclUniqueId id = shared_unique_id();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  if (!job.culprit) {
    usleep(300000);
  }
  (void)ncclCommInitRankConfig(&comm, world_size(), id, world_rank(), &config);
  if (job.culprit) {
    (void)ncclAllReduce(job.from, job.to, 1024, ncclFloat, ncclSum, comm, job.stream);
  }
  wait_until_done(comm);
  for (int number = job.culprit ? 1 : 0; number < kSteps; ++number) {
    (void)ncclAllReduce(job.from, job.to, 1024, ncclFloat, ncclSum, comm, job.stream);
    wait_until_done(comm);
    CUDA_CHECK(cudaStreamSynchronize(job.stream));
  }
}

// Half of the ranks use them the other way round, each on a stream of its own.
void first_use(const Job& job, bool both_known) {
  const ncclComm_t one = world_communicator();
  const ncclComm_t two = split(one, 0, "two");
  Job second = job;
  CUDA_CHECK(cudaStreamCreate(&second.stream));
  if (both_known) {
    step(job, one);
    step(second, two);
  }
  const bool turned = world_rank() % 2 == 1;
  sum(turned ? second : job, turned ? two : one);
  sum(turned ? job : second, turned ? one : two);
  CUDA_CHECK(cudaStreamSynchronize(job.stream));
  CUDA_CHECK(cudaStreamSynchronize(second.stream));
}

// Its second thread is inside the first use of another communicator, for which the others let it
// wait, while NCCL refuses what the first one calls (SIMGPU_FAIL).
void launch_race(const Job& job) {
  const ncclComm_t one = world_communicator();
  const ncclComm_t two = split(one, 0, "two");
  Job second = job;
  CUDA_CHECK(cudaStreamCreate(&second.stream));
  step(job, one);
  const std::string told = std::string(getenv("WORKLOAD_DIR")) + "/refused";
  while (!job.culprit && !job.healthy && access(told.c_str(), F_OK) != 0) {
    usleep(10000);
  }
  std::atomic<bool> began{false};
  std::thread other([&] {
    select_device();
    began = true;
    sum(second, two);
  });
  while (!began) {
    usleep(1000);
  }
  sleep(1);
  const bool went_wrong =
      refused(ncclAllReduce(job.from, job.to, 1024, ncclFloat, ncclSum, one, job.stream));
  std::ofstream(told) << went_wrong;
  other.join();
  if (went_wrong) {
    look_at_files();
  }
  CUDA_CHECK(cudaStreamSynchronize(job.stream));
  CUDA_CHECK(cudaStreamSynchronize(second.stream));
}

// Two by two; every other one; all.
void groups(const Job& job) {
  const ncclComm_t world = world_communicator();
  step(job, world);
  const int rank = world_rank();
  const bool collides = job.mistake == "split-color";
  if (job.culprit && job.mistake == "split-missing") {
    look_at_files();
  }
  const char* tensor = rank < 2 ? "tp0" : "tp1";
  if (!job.culprit || job.mistake != "split-left-out") {
    steps(job, split(world, collides ? 0 : rank / 2, collides ? tensor : "tp"));
  }
  steps(job, split(world, rank % 2, "pp"));
  steps(job, split(world, 0, "dp"));
}

// All must register a window together.
void windows(const Job& job) {
  const ncclComm_t comm = world_communicator();
  steps(job, comm);
  const size_t bytes = size_t{64} << 10;
  void* buffer = nullptr;
  NCCL_CHECK(ncclMemAlloc(&buffer, bytes));
  ncclWindow_t window = nullptr;
  if (!job.culprit) {
    NCCL_CHECK(ncclCommWindowRegister(comm, buffer, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  } else if (job.mistake == "window-missing") {
    look_at_files();
  }
  steps(job, comm);
}

// NCCL tells one of them of an error (SIMGPU_NCCL_ASYNC_ERROR), and its host looks.
void async_error(const Job& job) {
  const ncclComm_t comm = world_communicator();
  sum(job, comm);
  CUDA_CHECK(cudaStreamSynchronize(job.stream));
  sum(job, comm);
  while (cudaStreamQuery(job.stream) == cudaErrorNotReady) {
    ncclResult_t state = ncclSuccess;
    NCCL_CHECK(ncclCommGetAsyncError(comm, &state));
    usleep(10000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3, "usage: lives NAME RANK");
  Job job;
  job.mistake = argv[1];
  job.culprit = atoi(argv[2]) == world_rank();
  job.healthy = atoi(argv[2]) < 0;
  if (job.mistake == "settings" && job.culprit) {
    setenv("NCCL_PROTO", "LL", 1);
  }
  select_device();
  const DeviceBuffer<float> from(std::vector<float>(4096, 1));
  const DeviceBuffer<float> to(std::vector<float>(4096, 0));
  job.from = from.data();
  job.to = to.data();
  CUDA_CHECK(cudaStreamCreate(&job.stream));
  if (job.mistake.starts_with("init-") || job.mistake == "settings") {
    begin(job);
  } else if (job.mistake.starts_with("split-")) {
    groups(job);
  } else if (job.mistake.starts_with("window-")) {
    windows(job);
  } else if (job.mistake.starts_with("first-use")) {
    first_use(job, job.mistake == "first-use-known");
  } else if (job.mistake == "unpolled") {
    unpolled(job);
  } else if (job.mistake == "launch-race") {
    launch_race(job);
  } else if (job.mistake == "async-error") {
    async_error(job);
  } else {
    end(job);
  }
  // Neither finalized nor destroyed: that would wait for what hangs.
  leave();
}
