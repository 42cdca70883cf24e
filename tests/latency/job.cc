#include "job.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/buffer.h"
#include "common/check.h"
#include "common/check_driver.h"
#include "common/nccl_ranks.h"
#include "common/ranks.h"

namespace {

constexpr int kLayers = 10;

std::vector<CUfunction> kernels_called(CUmodule module, const std::string& name, int count) {
  std::vector<CUfunction> kernels(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    CU_CHECK(cuModuleGetFunction(&kernels[static_cast<size_t>(i)], module,
                                 (name + "_" + std::to_string(i)).c_str()));
  }
  return kernels;
}

}  // namespace

void say(const char* key, int64_t ns) {
  if (ns != 0) {
    printf("%s %lld\n", key, static_cast<long long>(ns));
  }
}

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

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

Moments::Moments(int steps) : events_(static_cast<size_t>(steps)) {
  for (cudaEvent_t& event : events_) {
    CUDA_CHECK(cudaEventCreate(&event));
  }
}

int64_t Moments::since(const Moments& from, size_t shift) const {
  double ns = 0;
  for (size_t i = 0; i < from.used_ && i + shift < used_; ++i) {
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, from.events_[i], events_[i + shift]));
    ns += ms > 0 ? 1e6 * static_cast<double>(ms) : 0;
  }
  return static_cast<int64_t>(ns);
}

Job::Job(int steps) : begins(steps), backward_ends(steps), reduced(steps), ends(steps) {
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

void Job::launch(CUfunction kernel, unsigned blocks) const {
  CU_CHECK(cuLaunchKernel(kernel, blocks, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
}

void Job::launch(const std::vector<CUfunction>& kernels, unsigned blocks) const {
  for (const CUfunction kernel : kernels) {
    launch(kernel, blocks);
  }
}

void Job::synchronise() const {
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

CUfunction Job::kernel(const std::string& name) const {
  CUfunction kernel = nullptr;
  CU_CHECK(cuModuleGetFunction(&kernel, module, name.c_str()));
  return kernel;
}

void Job::order(cudaStream_t earlier, cudaStream_t later) const {
  CUDA_CHECK(cudaEventRecord(ready, earlier));
  CUDA_CHECK(cudaStreamWaitEvent(later, ready, 0));
}

void Job::step(bool communicates, unsigned blocks) {
  CUDA_CHECK(cudaEventRecord(begins.next(), stream));
  launch(forward);
  cudaEvent_t done = nullptr;
  if (communicates) {
    CUDA_CHECK(cudaEventRecord(ready, stream));
    CUDA_CHECK(cudaStreamWaitEvent(side, ready, 0));
    NCCL_CHECK(ncclAllReduce(gradients, gradients, 1024, ncclFloat32, ncclSum, comm, side));
    CUDA_CHECK(cudaEventRecord(done = reduced.next(), side));
  }
  launch(backward, blocks);
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
