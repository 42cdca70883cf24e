// A pipeline of one forward and one backward pass in turn (1F1B), of which one rank does something
// else once: `pipelines NAME RANK`.  RANK -1: no rank does, the healthy twin.  What begins with
// `grouped-` exchanges both directions in one group; else each message is a call of its own, small
// enough to be buffered.
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr int kSteps = 6;
constexpr int kFaultStep = 4;
constexpr int kMicroBatches = 8;
constexpr int kFaultMicroBatch = 4;
constexpr size_t kCount = 64 << 10;  // elements: 256 KiB

const std::string kGrouped = "grouped-";

enum class Way { kForward, kBackward };

void never_return(void*) {
  for (;;) {
    pause();
  }
}
void return_late(void*) {
  sleep(1);
}

class Stage {
 public:
  Stage(const std::string& mistake, bool culprit)
      : grouped_(mistake.starts_with(kGrouped)),
        mistake_(grouped_ ? mistake.substr(kGrouped.size()) : mistake),
        culprit_(culprit),
        comm_(world_communicator()) {
    CUDA_CHECK(cudaStreamCreate(&stream_));
    // Any pair may meet.
    NCCL_CHECK(ncclGroupStart());
    for (int peer = 0; peer < world_size(); ++peer) {
      NCCL_CHECK(ncclSend(from_.data(), 64, ncclFloat, peer, comm_, stream_));
      NCCL_CHECK(ncclRecv(to_.data(), 64, ncclFloat, peer, comm_, stream_));
    }
    NCCL_CHECK(ncclGroupEnd());
  }

  void step(int number) {
    step_ = number;
    const int warm_up = std::min(world_size() - 1 - world_rank(), kMicroBatches);
    for (int i = 0; i < warm_up; ++i) {
      receive(Way::kForward, i);
      compute();
      send(Way::kForward, i);
    }
    const int steady = kMicroBatches - warm_up;
    if (steady > 0) {
      receive(Way::kForward, warm_up);
    }
    for (int i = 0; i < steady; ++i) {
      compute();
      exchange(Way::kForward, warm_up + i, Way::kBackward, i);
      compute();
      const bool last = i + 1 == steady;
      if (last) {
        send(Way::kBackward, i);
      } else {
        exchange(Way::kBackward, i, Way::kForward, warm_up + i + 1);
      }
    }
    for (int i = steady; i < kMicroBatches; ++i) {
      receive(Way::kBackward, i);
      compute();
      send(Way::kBackward, i);
    }
    NCCL_CHECK(ncclAllReduce(from_.data(), to_.data(), 1024, ncclFloat, ncclSum, comm_, stream_));
    CUDA_CHECK(cudaStreamSynchronize(stream_));
  }

 private:
  bool is_at_fault(int micro_batch) const {
    return culprit_ && step_ == kFaultStep && micro_batch == kFaultMicroBatch;
  }
  void compute() { CUDA_CHECK(cudaMemsetAsync(to_.data(), 0, 64, stream_)); }
  static int to(Way way) { return world_rank() + (way == Way::kForward ? 1 : -1); }
  static int from(Way way) { return world_rank() - (way == Way::kForward ? 1 : -1); }
  static bool exists(int peer) { return peer >= 0 && peer < world_size(); }

  void send(Way way, int micro_batch) {
    const int peer = to(way);
    if (!exists(peer)) {
      return;
    }
    const bool mistaken = way == Way::kForward && is_at_fault(micro_batch);
    if (mistaken && mistake_ == "skip-send") {
      return;
    }
    if (mistaken && mistake_.starts_with("blocked-send")) {
      CUDA_CHECK(cudaLaunchHostFunc(
          stream_, mistake_ == "blocked-send-late" ? return_late : never_return, nullptr));
    }
    if (mistaken && mistake_ == "long-kernel") {
      CUDA_CHECK(cudaMemsetAsync(much_.data(), 0, much_.bytes(), stream_));
    }
    const size_t count = mistaken && mistake_ == "half-send" ? kCount / 2 : kCount;
    const int whom = mistaken && mistake_ == "wrong-peer" ? (peer + 1) % world_size() : peer;
    NCCL_CHECK(ncclSend(from_.data(), count, ncclFloat, whom, comm_, stream_));
    if (mistaken && mistake_ == "send-twice") {
      NCCL_CHECK(ncclSend(from_.data(), count, ncclFloat, whom, comm_, stream_));
    }
  }
  void receive(Way way, int micro_batch) {
    const int peer = from(way);
    const bool mistaken = way == Way::kForward && is_at_fault(micro_batch);
    if (!exists(peer) || (mistaken && mistake_ == "skip-receive")) {
      return;
    }
    const size_t count = mistaken && mistake_ == "half-receive" ? kCount / 2 : kCount;
    NCCL_CHECK(ncclRecv(to_.data(), count, ncclFloat, peer, comm_, stream_));
  }
  void exchange(Way sent, int sent_batch, Way received, int received_batch) {
    if (grouped_) {
      NCCL_CHECK(ncclGroupStart());
    }
    send(sent, sent_batch);
    receive(received, received_batch);
    if (grouped_) {
      NCCL_CHECK(ncclGroupEnd());
    }
  }

  const bool grouped_;
  const std::string mistake_;
  const bool culprit_;
  ncclComm_t comm_;
  cudaStream_t stream_ = nullptr;
  int step_ = 0;
  DeviceBuffer<float> from_{std::vector<float>(kCount, 1)};
  DeviceBuffer<float> to_{std::vector<float>(kCount, 0)};
  DeviceBuffer<char> much_{256 << 20};
};

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3, "usage: pipelines NAME RANK");
  const std::string mistake = argv[1];
  const bool culprit = atoi(argv[2]) == world_rank();
  if (mistake.ends_with("long-kernel") && culprit) {
    setenv("SIMGPU_COPY_GBPS", "0.0005", 1);
  }
  select_device();
  // Neither freed nor destroyed: that would wait for what hangs.
  auto* const stage = new Stage(mistake, culprit);
  for (int number = 0; number < kSteps; ++number) {
    stage->step(number);
  }
  printf("done\n");
  fflush(stdout);
  _exit(0);
}
