// A rank of a job of steps that loses time in a known way: `latency CASE STEPS`.  Prints what it
// has lost itself, as `KEY NS`, the GPU's time by events on its streams; kernels and collectives
// take what judge.py tells simgpu.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/buffer.h"
#include "common/check.h"
#include "common/check_driver.h"
#include "common/nccl_ranks.h"
#include "common/ranks.h"

namespace {

constexpr int kLayers = 10;
constexpr size_t kCopyBytes = 1 << 20;
constexpr int kLostUs = 10'000;

void say(const char* key, int64_t ns) {
  if (ns != 0) {
    printf("%s %lld\n", key, static_cast<long long>(ns));
  }
}

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

// How long threads of this process have waited for a processor (the second number of schedstat); 0
// where the kernel does not count it.
int64_t delayed_ns() {
  int64_t sum = 0;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    int64_t ran = 0;
    int64_t delayed = 0;
    if (std::ifstream(task.path() / "schedstat") >> ran >> delayed) {
      sum += delayed;
    }
  }
  return sum;
}

// Events that tell the time, one for each step, made before the first.
class Moments {
 public:
  explicit Moments(int steps) : events_(static_cast<size_t>(steps)) {
    for (cudaEvent_t& event : events_) {
      CUDA_CHECK(cudaEventCreate(&event));
    }
  }
  cudaEvent_t next() { return events_[used_++]; }
  // From the i-th of `from` to the (i + shift)-th of these, where that is later.
  int64_t since(const Moments& from, size_t shift) const {
    double ns = 0;
    for (size_t i = 0; i < from.used_ && i + shift < used_; ++i) {
      float ms = 0;
      CUDA_CHECK(cudaEventElapsedTime(&ms, from.events_[i], events_[i + shift]));
      ns += ms > 0 ? 1e6 * static_cast<double>(ms) : 0;
    }
    return static_cast<int64_t>(ns);
  }

 private:
  std::vector<cudaEvent_t> events_;
  size_t used_ = 0;
};

struct Job {
  explicit Job(int steps);
  void launch(const std::vector<CUfunction>& kernels) const {
    for (const CUfunction kernel : kernels) {
      CU_CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    }
  }
  // Forward, then the gradients' collective beside the backward pass, then the update.
  void step(bool communicates);
  // As many collectives one after the other, behind the backward pass.
  void step_with(int collectives, size_t elements);
  void synchronise() const { CUDA_CHECK(cudaStreamSynchronize(stream)); }

  cudaStream_t stream = nullptr;
  cudaStream_t side = nullptr;
  cudaEvent_t ready = nullptr;
  Moments begins, backward_ends, reduced, ends;
  std::vector<CUfunction> forward, backward, update;
  ncclComm_t comm = nullptr;
  float* gradients = nullptr;
  char* batch = nullptr;
};

std::vector<CUfunction> kernels_called(CUmodule module, const std::string& name, int count) {
  std::vector<CUfunction> kernels(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    CU_CHECK(cuModuleGetFunction(&kernels[static_cast<size_t>(i)], module,
                                 (name + "_" + std::to_string(i)).c_str()));
  }
  return kernels;
}

Job::Job(int steps) : begins(steps), backward_ends(steps), reduced(steps), ends(steps) {
  CUmodule module = nullptr;
  CU_CHECK(cuModuleLoadData(&module, "no image of any kind, but long enough to look at its start"));
  forward = kernels_called(module, "forward", kLayers);
  backward = kernels_called(module, "backward", kLayers);
  update = kernels_called(module, "update", 1);
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  CUDA_CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&gradients), 4096));
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&batch), kCopyBytes));
  if (world_size() > 1) {
    comm = world_communicator();
  }
}

void Job::step(bool communicates) {
  CUDA_CHECK(cudaEventRecord(begins.next(), stream));
  launch(forward);
  cudaEvent_t done = nullptr;
  if (communicates) {
    CUDA_CHECK(cudaEventRecord(ready, stream));
    CUDA_CHECK(cudaStreamWaitEvent(side, ready, 0));
    NCCL_CHECK(ncclAllReduce(gradients, gradients, 1024, ncclFloat32, ncclSum, comm, side));
    CUDA_CHECK(cudaEventRecord(done = reduced.next(), side));
  }
  launch(backward);
  CUDA_CHECK(cudaEventRecord(backward_ends.next(), stream));
  if (communicates) {
    CUDA_CHECK(cudaStreamWaitEvent(stream, done, 0));
  }
  launch(update);
}

void Job::step_with(int collectives, size_t elements) {
  CUDA_CHECK(cudaEventRecord(begins.next(), stream));
  launch(forward);
  launch(backward);
  CUDA_CHECK(cudaEventRecord(backward_ends.next(), stream));
  CUDA_CHECK(cudaEventRecord(ready, stream));
  CUDA_CHECK(cudaStreamWaitEvent(side, ready, 0));
  for (int i = 0; i < collectives; ++i) {
    NCCL_CHECK(ncclAllReduce(gradients, gradients, elements, ncclFloat32, ncclSum, comm, side));
  }
  const cudaEvent_t done = reduced.next();
  CUDA_CHECK(cudaEventRecord(done, side));
  CUDA_CHECK(cudaStreamWaitEvent(stream, done, 0));
  launch(update);
}

// 5 ms on one stream, then 1 ms on the legacy stream, and 4 ms on another.  Streams that are not
// made to ignore the legacy one do so one after the other; or they wait for each other's events.
void on_three_streams(Job& job, int steps, unsigned flags, bool with_events) {
  cudaStream_t first = nullptr;
  cudaStream_t last = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&first, flags));
  CUDA_CHECK(cudaStreamCreateWithFlags(&last, flags));
  const auto launch = [](CUfunction kernel, cudaStream_t stream) {
    CU_CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  };
  const auto let_wait = [&](cudaStream_t stream, cudaStream_t before) {
    CUDA_CHECK(cudaEventRecord(job.ready, before));
    CUDA_CHECK(cudaStreamWaitEvent(stream, job.ready, 0));
  };
  for (int i = 0; i < steps; ++i) {
    for (int kernel = 0; kernel < 5; ++kernel) {
      launch(job.backward[static_cast<size_t>(kernel)], first);
    }
    if (with_events) {
      let_wait(nullptr, first);
    }
    launch(job.update[0], nullptr);
    if (with_events) {
      let_wait(last, nullptr);
    }
    for (int kernel = 5; kernel < 9; ++kernel) {
      launch(job.backward[static_cast<size_t>(kernel)], last);
    }
    for (const cudaStream_t stream : {first, last, cudaStream_t{nullptr}}) {
      CUDA_CHECK(cudaStreamSynchronize(stream));
    }
  }
}

// What the host does between two steps.
int64_t lose(int us) {
  const int64_t begin = now_ns();
  usleep(static_cast<useconds_t>(us));
  return now_ns() - begin;
}

// The value of the loss is read in each step, and the host does something before the next one.
void reads_the_loss(Job& job, int steps, int us) {
  for (int i = 0; i < steps; ++i) {
    job.step(false);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    job.synchronise();
    if (us != 0) {
      lose(us);
    }
  }
}

void copies(Job& job, int steps, const char* batch, int us) {
  for (int i = 0; i < steps; ++i) {
    job.step(false);
    CUDA_CHECK(cudaMemcpyAsync(job.batch, batch, kCopyBytes, cudaMemcpyHostToDevice, job.stream));
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    if (us != 0) {
      lose(us);
    }
  }
}

void communicates(Job& job, int steps) {
  for (int i = 0; i < steps; ++i) {
    job.step(true);
  }
}

// Rank 1 does more than the others before each step, or before one of them.
void comes_late(Job& job, int steps, int which) {
  int64_t late = 0;
  for (int i = 0; i < steps; ++i) {
    if (world_rank() == 1 && (which < 0 || which == i)) {
      const int64_t lost = lose(kLostUs);
      late += i > 0 ? lost : 0;
    }
    job.step(true);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    job.synchronise();
  }
  say("late_ns", late);
}

void run(const std::string& name, Job& job, int steps) {
  std::vector<char> pageable(kCopyBytes);
  void* pinned = nullptr;
  CUDA_CHECK(cudaMallocHost(&pinned, kCopyBytes));
  if (name == "sync" || name == "sync-seldom") {
    reads_the_loss(job, steps, name == "sync" ? kLostUs : 0);
  } else if (name == "no-sync") {
    copies(job, steps, static_cast<char*>(pinned), kLostUs / 2);
  } else if (name == "pageable" || name == "pageable-alone") {
    copies(job, steps, pageable.data(), name == "pageable" ? kLostUs : 0);
  } else if (name == "communication") {
    communicates(job, steps);
  } else if (name == "small" || name == "bucketed") {
    for (int i = 0; i < steps; ++i) {
      job.step_with(name == "bucketed" ? 1 : 30, 64);
    }
  } else if (name.starts_with("legacy")) {
    on_three_streams(job, steps, name == "legacy-ignored" ? cudaStreamNonBlocking : 0,
                     name == "legacy-and-events");
  } else if (name == "late" || name == "late-once") {
    comes_late(job, steps, name == "late" ? -1 : steps / 2);
  } else if (name == "late-at-first") {
    comes_late(job, steps, 0);
  } else {
    CHECK(false, "do not know %s", name.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3, "latency CASE STEPS");
  const int steps = atoi(argv[2]);
  select_device();
  CUDA_CHECK(cudaFree(nullptr));
  Job job(steps);
  if (world_size() > 1) {
    meet("ready");
  }
  const int64_t delayed_before = delayed_ns();
  run(argv[1], job, steps);
  say("delayed_ns", delayed_ns() - delayed_before);
  // Later than the last look at what is complete.
  usleep(150'000);
  CUDA_CHECK(cudaDeviceSynchronize());
  say("idle_ns", job.begins.since(job.ends, 1));
  say("exposed_ns", job.reduced.since(job.backward_ends, 0));
  return 0;
}
