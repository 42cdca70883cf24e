#include "pipelines.h"

#include <algorithm>

#include "common/check.h"
#include "common/nccl_ranks.h"
#include "common/ranks.h"

namespace {

constexpr size_t kElements = 256;
constexpr size_t kLayers = 5;

// As PyTorch and Megatron do it: messages on a stream of their own, which waits for what was
// launched before, and what is launched behind a receive waits for it.
class Stage {
 public:
  Stage(Job& job, int passes) : job_(job), begins_(passes), ends_(passes) {}

  void forward() { launch(job_.forward); }
  void backward() { launch(job_.backward); }
  // Peers beyond the ends of the pipeline are none.
  void exchange(int to, int from) {
    const bool sends = is_there(to);
    const bool receives = is_there(from);
    if (!sends && !receives) {
      return;
    }
    job_.order(job_.stream, job_.side);
    NCCL_CHECK(ncclGroupStart());
    if (sends) {
      NCCL_CHECK(ncclSend(job_.gradients, kElements, ncclFloat32, to, job_.comm, job_.side));
    }
    if (receives) {
      NCCL_CHECK(
          ncclRecv(job_.gradients + kElements, kElements, ncclFloat32, from, job_.comm, job_.side));
    }
    NCCL_CHECK(ncclGroupEnd());
    if (receives) {
      job_.order(job_.side, job_.stream);
    }
  }
  // Between the passes.
  int64_t waited_ns() const { return begins_.since(ends_, 1); }

 private:
  static bool is_there(int peer) { return peer >= 0 && peer < world_size(); }
  void launch(const std::vector<CUfunction>& kernels) {
    CUDA_CHECK(cudaEventRecord(begins_.next(), job_.stream));
    for (size_t i = 0; i < kLayers; ++i) {
      job_.launch(kernels[i]);
    }
    CUDA_CHECK(cudaEventRecord(ends_.next(), job_.stream));
  }

  Job& job_;
  Moments begins_, ends_;
};

constexpr int kNobody = -1;

void all_forward(Stage& stage, int micro_batches) {
  const int rank = world_rank();
  for (int i = 0; i < micro_batches; ++i) {
    stage.exchange(kNobody, rank - 1);
    stage.forward();
    stage.exchange(rank + 1, kNobody);
  }
  for (int i = 0; i < micro_batches; ++i) {
    stage.exchange(kNobody, rank + 1);
    stage.backward();
    stage.exchange(rank - 1, kNobody);
  }
}

void one_forward_one_backward(Stage& stage, int micro_batches) {
  const int rank = world_rank();
  const int ahead = std::min(world_size() - rank - 1, micro_batches);
  for (int i = 0; i < ahead; ++i) {
    stage.exchange(kNobody, rank - 1);
    stage.forward();
    stage.exchange(rank + 1, kNobody);
  }
  const int rest = micro_batches - ahead;
  stage.exchange(kNobody, rest > 0 ? rank - 1 : kNobody);
  for (int i = 0; i < rest; ++i) {
    stage.forward();
    stage.exchange(rank + 1, rank + 1);
    stage.backward();
    stage.exchange(rank - 1, i + 1 < rest ? rank - 1 : kNobody);
  }
  for (int i = 0; i < ahead; ++i) {
    stage.exchange(kNobody, rank + 1);
    stage.backward();
    stage.exchange(rank - 1, kNobody);
  }
}

// With those up to so far away; with itself too where it is with all.
void exchange_behind(Job& job, int steps, int peers, bool with_itself) {
  const int size = world_size();
  for (int i = 0; i < steps; ++i) {
    job.launch(job.forward);
    job.launch(job.backward);
    job.order(job.stream, job.side);
    NCCL_CHECK(ncclGroupStart());
    for (int distance = with_itself ? 0 : 1; distance <= peers; ++distance) {
      const int to = (world_rank() + distance) % size;
      const int from = (world_rank() + size - distance) % size;
      NCCL_CHECK(ncclSend(job.gradients, 64, ncclFloat32, to, job.comm, job.side));
      NCCL_CHECK(ncclRecv(job.gradients + 64, 64, ncclFloat32, from, job.comm, job.side));
    }
    NCCL_CHECK(ncclGroupEnd());
    job.order(job.side, job.stream);
    job.launch(job.update);
  }
}

}  // namespace

void pipeline(Job& job, int steps, int micro_batches, bool all_forward_first) {
  Stage stage(job, steps * micro_batches * 2);
  for (int i = 0; i < steps; ++i) {
    all_forward_first ? all_forward(stage, micro_batches)
                      : one_forward_one_backward(stage, micro_batches);
    job.launch(job.update);
  }
  job.synchronise();
  say("bubble_ns", stage.waited_ns());
}

void all_to_all(Job& job, int steps) {
  exchange_behind(job, steps, world_size() - 1, true);
}

void ring(Job& job, int steps) {
  exchange_behind(job, steps, 1, false);
}
