#include "two_gpus.h"

#include <algorithm>

#include "common/check.h"
#include "common/nccl_ranks.h"
#include "common/ranks.h"

namespace {

// The second GPU of each process comes after the first ones of all.
void select(bool second) {
  CUDA_CHECK(cudaSetDevice(local_rank() + (second ? world_size() : 0)));
}

struct SecondGpu {
  explicit SecondGpu(int steps) : begins((select(true), steps)), ends(steps) {
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&memory), kCopyBytes));
    CUDA_CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    select(false);
  }

  Moments begins, ends;
  cudaStream_t stream = nullptr;
  cudaEvent_t done = nullptr;
  char* memory = nullptr;
};

// The forward pass here, something there, and the update here.
template <class Something>
void step(Job& job, SecondGpu& second, Something something) {
  job.launch(job.forward);
  job.order(job.stream, second.stream);
  select(true);
  CUDA_CHECK(cudaEventRecord(second.begins.next(), second.stream));
  something();
  CUDA_CHECK(cudaEventRecord(second.ends.next(), second.stream));
  CUDA_CHECK(cudaEventRecord(second.done, second.stream));
  select(false);
  CUDA_CHECK(cudaStreamWaitEvent(job.stream, second.done, 0));
  job.launch(job.update);
}

}  // namespace

void awaits_copies(Job& job, int steps) {
  SecondGpu second(steps);
  void* pinned = nullptr;
  CUDA_CHECK(cudaMallocHost(&pinned, kCopyBytes));
  for (int i = 0; i < steps; ++i) {
    step(job, second, [&] {
      CUDA_CHECK(cudaMemcpyAsync(second.memory, pinned, kCopyBytes, cudaMemcpyHostToDevice,
                                 second.stream));
    });
  }
  job.synchronise();
  say("+idle_for_copy_wait_ns", second.ends.since(second.begins, 0));
}

void awaits_collectives(Job& job, int steps, int late_us) {
  SecondGpu second(steps);
  select(true);
  ncclComm_t comm = nullptr;
  NCCL_CHECK(ncclCommInitRank(&comm, world_size(), shared_unique_id("second"), world_rank()));
  select(false);
  auto* const values = reinterpret_cast<float*>(second.memory);
  for (int i = 0; i < steps; ++i) {
    if (world_rank() == 1 && late_us != 0 && i > 0) {
      usleep(static_cast<useconds_t>(late_us));
    }
    step(job, second, [&] {
      NCCL_CHECK(ncclAllReduce(values, values, 1024, ncclFloat32, ncclSum, comm, second.stream));
    });
  }
  job.synchronise();
  const int64_t collectives = int64_t{1000} * steps * environment_number("SIMGPU_NCCL_US", 0);
  say("+idle_for_communication_wait_ns", collectives);
  say("+idle_for_straggler_wait_ns",
      late_us == 0 ? 0 : std::max<int64_t>(0, second.ends.since(second.begins, 0) - collectives));
}
