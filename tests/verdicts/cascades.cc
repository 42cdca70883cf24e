// Eight ranks in pairs, columns and halves, of which two go wrong at once and hold up all others:
// `cascades NAME RANK`.  RANK -1: nobody does.
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr int kSteps = 8;
constexpr int kFaultStep = 5;

struct Job {
  ncclComm_t pair = nullptr;
  ncclComm_t column = nullptr;
  ncclComm_t half = nullptr;
  cudaStream_t stream = nullptr;
  float* from = nullptr;
  float* to = nullptr;
};

void sum(const Job& job, ncclComm_t comm, size_t count) {
  NCCL_CHECK(ncclAllReduce(job.from, job.to, count, ncclFloat, ncclSum, comm, job.stream));
}

void layer(const Job& job) {
  sum(job, job.pair, 512);
}
void gradients(const Job& job) {
  sum(job, job.column, 1024);
}
void experts(const Job& job, size_t count = 256) {
  sum(job, job.half, count);
}
void step(const Job& job) {
  layer(job);
  gradients(job);
  experts(job);
  CUDA_CHECK(cudaStreamSynchronize(job.stream));
}

void never_return(void*) {
  for (;;) {
    pause();
  }
}
void out_of_memory(const Job& job) {
  void* memory = nullptr;
  while (cudaMalloc(&memory, size_t{1} << 50) != cudaSuccess) {
    (void)cudaGetLastError();
    (void)cudaStreamQuery(job.stream);
    usleep(10'000);
  }
}

// What rank 0 does breaks the columns and its pair, what rank 7 does the other column.
void death_and_stuck(const Job& job) {
  if (world_rank() == 0) {
    raise(SIGKILL);
  }
  layer(job);
  if (world_rank() == 7) {
    never_return(nullptr);
  }
  gradients(job);
}

// One fault in each half.
void out_of_memory_and_mismatch(const Job& job) {
  if (world_rank() == 2) {
    out_of_memory(job);
  }
  experts(job, world_rank() == 5 ? 200 : 256);
  experts(job, 128);  // what follows agrees: it is no call in excess
}
void exit_and_blocked(const Job& job) {
  if (world_rank() == 1) {
    _exit(1);
  }
  if (world_rank() == 6) {
    CUDA_CHECK(cudaLaunchHostFunc(job.stream, never_return, nullptr));
  }
  experts(job);
}

void fault(const Job& job, const std::string& name) {
  if (name == "death-and-stuck") {
    death_and_stuck(job);
  } else if (name == "oom-and-mismatch") {
    out_of_memory_and_mismatch(job);
  } else {
    exit_and_blocked(job);
  }
  CUDA_CHECK(cudaStreamSynchronize(job.stream));
}

ncclComm_t part(ncclComm_t world, int color) {
  ncclComm_t comm = nullptr;
  NCCL_CHECK(ncclCommSplit(world, color, world_rank(), &comm, nullptr));
  return comm;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3 && world_size() == 8, "usage: cascades NAME RANK, on 8 ranks");
  select_device();
  ncclComm_t world = world_communicator();
  Job job;
  job.pair = part(world, world_rank() / 2);
  job.column = part(world, world_rank() % 2);
  job.half = part(world, world_rank() / 4);
  const DeviceBuffer<float> from(std::vector<float>(1024, 1));
  const DeviceBuffer<float> to(std::vector<float>(1024, 0));
  job.from = from.data();
  job.to = to.data();
  CUDA_CHECK(cudaStreamCreate(&job.stream));
  for (int number = 0; number < kSteps; ++number) {
    if (number == kFaultStep && atoi(argv[2]) >= 0) {
      fault(job, argv[1]);
    }
    step(job);
  }
  printf("done\n");
  fflush(stdout);
  _exit(0);
}
