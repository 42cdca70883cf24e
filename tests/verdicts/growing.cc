// Two ranks whose communicator takes in two more (NCCL 2.29), then a training loop on the grown
// communicator and on halves of it, of which one rank does what no other does: `growing NAME RANK`.
// RANK -1: none does, the healthy twin.
#include <nccl.h>
#include <unistd.h>

#include <string_view>

#include "common/buffer.h"
#include "common/nccl_ranks.h"
#include "interpose/calls/nccl_later.h"

namespace {

constexpr int kFirst = 2;  // ranks before it grows
constexpr int kSteps = 6;
constexpr int kFaultStep = 3;

[[noreturn]] void stay_away() {
  for (;;) {
    pause();
  }
}

ncclComm_t grown(bool absent) {
  const int rank = world_rank(), size = world_size();
  ncclComm_t before = nullptr, after = nullptr;
  ncclUniqueId id;
  if (rank >= kFirst) {
    CUDA_CHECK(cudaFree(nullptr));
    if (absent) {
      stay_away();
    }
    fetch("growth", &id, sizeof id);
    NCCL_CHECK(ncclCommGrow(nullptr, size, &id, rank, &after, nullptr));
    return after;
  }
  const ncclUniqueId first = shared_unique_id("first");
  NCCL_CHECK(ncclCommInitRank(&before, kFirst, first, rank));
  if (absent) {
    stay_away();
  }
  if (rank == 0) {
    NCCL_CHECK(ncclCommGetUniqueId(before, &id));
    publish("growth", &id, sizeof id);
  }
  NCCL_CHECK(ncclCommGrow(before, size, rank == 0 ? &id : nullptr, -1, &after, nullptr));
  return after;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3, "usage: growing NAME RANK");
  const std::string_view name = argv[1];
  const bool culprit = atoi(argv[2]) == world_rank();
  select_device();
  const ncclComm_t world = grown(culprit && name == "grown-absent");
  ncclComm_t half = nullptr;
  NCCL_CHECK(ncclCommSplit(world, world_rank() % 2, world_rank(), &half, nullptr));
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreate(&stream));
  const DeviceBuffer<float> from(std::vector<float>(4096, 1));
  const DeviceBuffer<float> to(std::vector<float>(4096, 0));
  const auto reduce = [&](ncclComm_t comm, size_t count) {
    NCCL_CHECK(ncclAllReduce(from.data(), to.data(), count, ncclFloat, ncclSum, comm, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
  };
  for (int step = 0; step < kSteps; ++step) {
    const bool faulty = culprit && step == kFaultStep;
    if (!faulty || name != "grown-skip") {
      reduce(world, 1024);
    }
    reduce(half, faulty && name == "grown-count" ? 32 : 64);
    if (name == "grown-suspend" && step == kFaultStep) {
      NCCL_CHECK(ncclCommSuspend(half, 1));
      NCCL_CHECK(ncclCommResume(half));
    }
  }
  printf("done\n");
  fflush(stdout);
  _exit(0);
}
