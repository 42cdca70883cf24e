// Sends, receives and groups of which one rank, or all of them, make a mistake: `messages NAME
// RANK`. What comes of it is up to NCCL. The ranks then go on as if nothing were, until they hang
// or are through.
#include <nccl.h>
#include <unistd.h>

#include <string>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr int kSteps = 8;
constexpr int kFaultStep = 5;
constexpr size_t kLarge = 16 << 20;  // elements: 64 MiB, more than a send may be ahead

struct Job {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* from = nullptr;
  float* to = nullptr;
};

int next(int distance = 1) {
  return (world_rank() + distance) % world_size();
}
int previous() {
  return (world_rank() + world_size() - 1) % world_size();
}

void send(const Job& job, int peer, size_t count, ncclDataType_t type = ncclFloat) {
  NCCL_CHECK(ncclSend(job.from, count, type, peer, job.comm, job.stream));
}
void receive(const Job& job, int peer, size_t count) {
  NCCL_CHECK(ncclRecv(job.to, count, ncclFloat, peer, job.comm, job.stream));
}
void sum(const Job& job, size_t count) {
  NCCL_CHECK(ncclAllReduce(job.from, job.to, count, ncclFloat, ncclSum, job.comm, job.stream));
}

void shift(const Job& job, int peer, size_t count, ncclDataType_t type = ncclFloat) {
  NCCL_CHECK(ncclGroupStart());
  send(job, peer, count, type);
  receive(job, previous(), 1024);
  NCCL_CHECK(ncclGroupEnd());
}

// Small ones are buffered: they need no group.
void two_messages(const Job& job, bool crossed) {
  send(job, next(), crossed ? 256 : 16);
  send(job, next(), crossed ? 16 : 256);
  receive(job, previous(), 16);
  receive(job, previous(), 256);
}

// Parts of a size of their own for each pair.
size_t part(int from, int to) {
  return size_t{100} + 10 * static_cast<size_t>(from) + static_cast<size_t>(to);
}
void dispatch(const Job& job, size_t more) {
  NCCL_CHECK(ncclGroupStart());
  for (int peer = 0; peer < world_size(); ++peer) {
    send(job, peer, part(world_rank(), peer) + (peer == world_rank() ? 0 : more));
    receive(job, peer, part(peer, world_rank()));
  }
  NCCL_CHECK(ncclGroupEnd());
}

void two_sums(const Job& job, bool grouped) {
  if (grouped) {
    NCCL_CHECK(ncclGroupStart());
  }
  sum(job, 64);
  sum(job, 8192);
  if (grouped) {
    NCCL_CHECK(ncclGroupEnd());
  }
}

void step(const Job& job) {
  shift(job, next(), 1024);
  two_messages(job, false);
  dispatch(job, 0);
  two_sums(job, true);
}

// Instead of a step.
void mistaken_step(const Job& job, const std::string& mistake) {
  const size_t count = mistake == "send-count" ? 1000 : 1024;
  shift(job, next(mistake == "send-peer" ? 2 : 1), count,
        mistake == "send-width" ? ncclHalf : ncclFloat);
  if (mistake == "send-cycle") {
    send(job, next(), kLarge);
    receive(job, previous(), kLarge);
  }
  if (mistake == "open-group") {
    NCCL_CHECK(ncclGroupStart());
  }
  two_messages(job, mistake == "send-order");
  dispatch(job, mistake == "parts" ? 7 : 0);
  two_sums(job, mistake != "grouping");
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3, "usage: messages NAME RANK");
  select_device();
  const std::string mistake = argv[1];
  const bool everybody = mistake == "send-cycle";
  Job job;
  job.comm = world_communicator();
  const DeviceBuffer<float> from(std::vector<float>(kLarge, 1));
  const DeviceBuffer<float> to(std::vector<float>(kLarge, 0));
  job.from = from.data();
  job.to = to.data();
  CUDA_CHECK(cudaStreamCreate(&job.stream));
  // Any pair may meet.
  dispatch(job, 0);
  for (int number = 0; number < kSteps; ++number) {
    if (number == kFaultStep && (everybody || atoi(argv[2]) == world_rank()) &&
        mistake != "sends") {
      mistaken_step(job, mistake);
    } else {
      step(job);
    }
    CUDA_CHECK(cudaStreamSynchronize(job.stream));
  }
  // Its results never came, and it looks for the reason.
  while (mistake == "open-group" && atoi(argv[2]) == world_rank()) {
    usleep(100000);
  }
  // Neither finalized nor destroyed: that would wait for what hangs.
  printf("done\n");
  fflush(stdout);
  _exit(0);
}
