// A training loop on two communicators of which one rank gets stuck, in a way that no call shows:
// `hangs NAME RANK`.  RANK -1: nobody does, the healthy twin.
#include <nccl.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr int kSteps = 8;
constexpr int kFaultStep = 5;

struct Job {
  ncclComm_t comm = nullptr;
  ncclComm_t other = nullptr;  // of the same ranks
  cudaStream_t stream = nullptr;
  cudaStream_t second = nullptr;
  float* from = nullptr;
  float* to = nullptr;
};

void gradients(const Job& job) {
  NCCL_CHECK(ncclAllReduce(job.from, job.to, 1024, ncclFloat, ncclSum, job.comm, job.stream));
}
void experts(const Job& job, cudaStream_t stream) {
  NCCL_CHECK(ncclAllReduce(job.from, job.to, 64, ncclFloat, ncclSum, job.other, stream));
}
void wait_for(cudaStream_t stream) {
  CUDA_CHECK(cudaStreamSynchronize(stream));
}
void step(const Job& job) {
  gradients(job);
  wait_for(job.stream);
  experts(job, job.second);
  wait_for(job.second);
}
void never_return(void*) {
  for (;;) {
    pause();
  }
}
void return_late(void*) {
  sleep(1);
}

// The others want the experts first, and wait; the culprit frees memory between the two.
void implicit_sync(const Job& job, bool culprit, bool near_miss) {
  void* spare = nullptr;
  CUDA_CHECK(cudaMalloc(&spare, 4096));
  if (culprit) {
    gradients(job);
    CUDA_CHECK(cudaFree(spare));
    experts(job, job.second);
  } else {
    experts(job, job.second);
    CUDA_CHECK(near_miss ? cudaFree(spare) : cudaStreamSynchronize(job.second));
    gradients(job);
  }
}

void out_of_memory(const Job& job, bool culprit, bool overcome) {
  void* memory = nullptr;
  if (culprit && cudaMalloc(&memory, size_t{1} << 50) != cudaSuccess) {
    (void)cudaGetLastError();
    if (!overcome) {
      for (;;) {  // until somebody frees something
        (void)cudaStreamQuery(job.stream);
        usleep(1000);
      }
    }
    CUDA_CHECK(cudaMalloc(&memory, 4096));
  }
}

// Each of the two communicators begins on a GPU before the other one is put there.
void in_turns(const Job& job, bool experts_first) {
  if (experts_first) {
    experts(job, job.second);
    sleep(1);
    gradients(job);
  } else {
    gradients(job);
    sleep(1);
    experts(job, job.second);
  }
  wait_for(job.stream);
  wait_for(job.second);
}

void make_wait(cudaStream_t stream, cudaStream_t before) {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CUDA_CHECK(cudaEventRecord(event, before));
  CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0));
  CUDA_CHECK(cudaEventDestroy(event));
}

// As frameworks do: each communicator has a stream, and events order them with the current one.
// Its host puts all of it there before it waits.
void ordered_by_events(const Job& job, bool experts_first, bool joined) {
  cudaStream_t current = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&current, cudaStreamNonBlocking));
  for (const bool first : {true, false}) {
    const bool second = first == experts_first;
    const cudaStream_t stream = second ? job.second : job.stream;
    make_wait(stream, current);
    if (second) {
      experts(job, stream);
    } else {
      gradients(job);
    }
    if (joined) {
      make_wait(current, stream);
    }
  }
  wait_for(current);
  wait_for(job.stream);
  wait_for(job.second);
}

void return_very_late(void*) {
  sleep(3);
}

// All call them in one order; on the culprit something on the stream keeps the first from
// beginning.
void in_one_order(const Job& job, bool culprit) {
  if (culprit) {
    CUDA_CHECK(cudaLaunchHostFunc(job.stream, return_very_late, nullptr));
  }
  gradients(job);
  sleep(1);
  experts(job, job.second);
  wait_for(job.stream);
  wait_for(job.second);
}

// Its watchdog gives up all communicators after some seconds, then the process; also if there was
// nothing to wait for.
void watchdog(const Job& job, bool missing, bool done) {
  if (missing) {
    never_return(nullptr);
  }
  gradients(job);
  std::thread watch([&job, done] {
    sleep(6);
    NCCL_CHECK(ncclCommAbort(job.comm));
    NCCL_CHECK(ncclCommAbort(job.other));
    _exit(done ? 0 : 1);
  });
  wait_for(job.stream);
  watch.join();
}

// What holds the stream up may be on another one.
void blocked(const Job& job, bool culprit, bool by_event, cudaHostFn_t function) {
  if (!culprit) {
    return;
  }
  cudaStream_t stream = job.stream;
  if (by_event) {
    CUDA_CHECK(cudaStreamCreate(&stream));
  }
  CUDA_CHECK(cudaLaunchHostFunc(stream, function, nullptr));
  if (by_event) {
    cudaEvent_t event = nullptr;
    CUDA_CHECK(cudaEventCreate(&event));
    CUDA_CHECK(cudaEventRecord(event, stream));
    CUDA_CHECK(cudaStreamWaitEvent(job.stream, event, 0));
  }
}

// Behind the operation, so that the others have it and this rank is not seen to.
void slow_device(const Job& job, bool culprit) {
  gradients(job);
  if (culprit) {
    void* much = nullptr;
    CUDA_CHECK(cudaMalloc(&much, 32 << 20));
    CUDA_CHECK(cudaMemsetAsync(much, 0, 32 << 20, job.stream));
  }
  wait_for(job.stream);
}

// `late`: the culprit alone captures, and launches after a while.
void captured(const Job& job, bool culprit, bool launch, bool late) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
  if (culprit || (launch && !late)) {
    CUDA_CHECK(cudaStreamBeginCapture(job.stream, cudaStreamCaptureModeThreadLocal));
    gradients(job);
    CUDA_CHECK(cudaStreamEndCapture(job.stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&instance, graph, 0));
  }
  if (instance != nullptr && launch) {
    sleep(late ? 1 : 0);
    CUDA_CHECK(cudaGraphLaunch(instance, job.stream));
  } else if (!culprit) {
    gradients(job);
  }
  wait_for(job.stream);
  if (culprit && !launch) {
    for (;;) {
      usleep(1000);
    }
  }
}

// Does what it is told, one thing after the other, on a thread of its own.
class Worker {
 public:
  void run(std::function<void()> task) {
    std::unique_lock lock(mutex_);
    task_ = std::move(task);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !task_; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return static_cast<bool>(task_); });
      task_();
      task_ = nullptr;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;
  std::thread thread_{&Worker::work, this};
};

// Each communicator has its thread, and all one stream, unless `apart`; whose thread is first is up
// to them.
void threads(const Job& job, bool culprit, bool apart, Worker& first, Worker& second) {
  const auto a = [&] { gradients(job); };
  const auto b = [&] { experts(job, apart ? job.second : job.stream); };
  if (culprit) {
    second.run(b);
    first.run(a);
  } else {
    first.run(a);
    second.run(b);
  }
  wait_for(job.stream);
  wait_for(job.second);
}

void fault(const Job& job, const std::string& name, bool culprit) {
  if (name.starts_with("implicit")) {
    implicit_sync(job, culprit, name == "implicit-all");
  } else if (name.starts_with("oom")) {
    out_of_memory(job, culprit, name == "oom-overcome");
  } else if (name.starts_with("function")) {
    blocked(job, culprit, false, name == "function-late" ? return_late : never_return);
  } else if (name == "event") {
    blocked(job, culprit, true, never_return);
  } else if (name == "slow-device") {
    slow_device(job, culprit);
  } else if (name.starts_with("capture")) {
    captured(job, culprit, name != "capture", name == "capture-late");
  } else if (name == "no-room") {
    in_turns(job, culprit);
  } else if (name.starts_with("events")) {
    ordered_by_events(job, culprit, name == "events");
  } else if (name == "same-order") {
    in_one_order(job, culprit);
  } else if (name.starts_with("late")) {
    sleep((name == "late-half" ? world_rank() % 2 == 0 : culprit) ? 7 : 0);
  } else if (name.starts_with("watchdog")) {
    watchdog(job, culprit && name == "watchdog-missing", name == "watchdog-done");
  }
  step(job);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3, "usage: hangs NAME RANK");
  const std::string name = argv[1];
  const bool culprit = atoi(argv[2]) == world_rank();
  if (name == "slow-device" && culprit) {
    setenv("SIMGPU_COPY_GBPS", "0.0001", 1);
  }
  if ((name == "stall" || name == "watchdog") && culprit) {
    const std::string first_of_fault =
        std::to_string(world_rank()) + "@" + std::to_string(2 * kFaultStep + 1);
    setenv("SIMGPU_NCCL_STALL", first_of_fault.c_str(), 1);
  }
  select_device();
  Job job;
  job.comm = world_communicator();
  NCCL_CHECK(ncclCommSplit(job.comm, 0, world_rank(), &job.other, nullptr));
  const DeviceBuffer<float> from(std::vector<float>(4096, 1));
  const DeviceBuffer<float> to(std::vector<float>(4096, 0));
  job.from = from.data();
  job.to = to.data();
  CUDA_CHECK(cudaStreamCreate(&job.stream));
  CUDA_CHECK(cudaStreamCreate(&job.second));
  // Never destroyed: its threads may hang.
  auto* workers = name.starts_with("threads") ? new Worker[2] : nullptr;
  for (int number = 0; number < kSteps; ++number) {
    if (workers != nullptr) {
      threads(job, culprit && number == kFaultStep, name == "threads-apart", workers[0],
              workers[1]);
    } else if (number == kFaultStep) {
      fault(job, name, culprit);
    } else {
      step(job);
    }
  }
  printf("done\n");
  fflush(stdout);
  _exit(0);
}
