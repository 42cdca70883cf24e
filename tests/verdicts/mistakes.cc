// A training loop of which one rank makes a mistake: `mistakes NAME RANK`.  What comes of it is up
// to NCCL. The ranks then go on as if nothing were, until they hang or are through.
#include <nccl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr int kSteps = 8;
constexpr int kFaultStep = 5;
constexpr size_t kMany = 4096;

struct Job {
  ncclComm_t comm = nullptr;
  ncclComm_t other = nullptr;  // of the same ranks
  cudaStream_t stream = nullptr;
  float* from = nullptr;
  float* to = nullptr;
  std::string mistake;
  bool culprit = false;
};

void forward(const Job& job, size_t count = 1024, ncclDataType_t type = ncclFloat,
             ncclRedOp_t op = ncclSum) {
  NCCL_CHECK(ncclAllReduce(job.from, job.to, count, type, op, job.comm, job.stream));
}
void backward(const Job& job, ncclComm_t comm) {
  NCCL_CHECK(ncclReduceScatter(job.from, job.to, 512, ncclFloat, ncclSum, comm, job.stream));
}
void weights(const Job& job, int root = 0) {
  NCCL_CHECK(ncclBroadcast(job.from, job.to, 2048, ncclFloat, root, job.comm, job.stream));
}
void shards(const Job& job) {
  NCCL_CHECK(ncclAllReduce(job.from, job.to, 64, ncclFloat, ncclSum, job.other, job.stream));
}
void log_loss(const Job& job) {
  NCCL_CHECK(ncclAllReduce(job.from, job.to, 1, ncclFloat, ncclMax, job.comm, job.stream));
}

void step(const Job& job, bool confused = false) {
  forward(job);
  backward(job, confused ? job.other : job.comm);
  weights(job);
  shards(job);
}

// What the culprit does instead of a step.
void mistaken_step(const Job& job) {
  const std::string& mistake = job.mistake;
  if (mistake == "skip") {
    forward(job);
    weights(job);
  } else if (mistake == "extra") {
    forward(job);
    log_loss(job);
    backward(job, job.comm);
    weights(job);
  } else if (mistake == "swap") {
    backward(job, job.comm);
    forward(job);
    weights(job);
  } else if (mistake == "operation") {
    NCCL_CHECK(ncclAllGather(job.from, job.to, 1024, ncclFloat, job.comm, job.stream));
    backward(job, job.comm);
    weights(job);
  } else if (mistake == "send") {
    NCCL_CHECK(ncclSend(job.from, 1024, ncclFloat, (world_rank() + 1) % world_size(), job.comm,
                        job.stream));
    backward(job, job.comm);
    weights(job);
  } else if (mistake == "root") {
    forward(job);
    backward(job, job.comm);
    weights(job, 1);
  } else {
    const size_t count = mistake == "count"        ? 1000
                         : mistake == "count-more" ? 1200
                         : mistake == "empty"      ? 0
                                                   : 1024;
    forward(job, count, mistake == "type" ? ncclHalf : ncclFloat,
            mistake == "reduction" ? ncclProd : ncclSum);
    backward(job, job.comm);
    weights(job);
  }
  shards(job);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3, "usage: mistakes NAME RANK");
  select_device();
  Job job;
  job.mistake = argv[1];
  job.culprit = atoi(argv[2]) == world_rank();
  job.comm = world_communicator();
  NCCL_CHECK(ncclCommSplit(job.comm, 0, world_rank(), &job.other, nullptr));
  const DeviceBuffer<float> from(std::vector<float>(kMany, 1));
  const DeviceBuffer<float> to(std::vector<float>(kMany, 0));
  job.from = from.data();
  job.to = to.data();
  CUDA_CHECK(cudaStreamCreate(&job.stream));
  // Else the first use would wait on the host, and be found as that.
  if (job.mistake == "communicator") {
    backward(job, job.other);
  }
  for (int number = 0; number < kSteps; ++number) {
    const bool mistaken = number == kFaultStep && job.culprit;
    const bool confused = mistaken && job.mistake == "communicator";
    if (mistaken && !confused) {
      mistaken_step(job);
    } else {
      step(job, confused);
    }
    CUDA_CHECK(cudaStreamSynchronize(job.stream));
  }
  // Neither finalized nor destroyed: that would wait for what hangs.
  printf("done\n");
  fflush(stdout);
  _exit(0);
}
