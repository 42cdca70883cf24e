#include "loops.h"

#include <unistd.h>

#include <string>

#include "common/check.h"
#include "common/check_driver.h"

namespace {

// As PyTorch's item().
void read(Job& job, void* value) {
  CUDA_CHECK(cudaMemcpyAsync(value, job.gradients, 4, cudaMemcpyDeviceToHost, job.stream));
  job.synchronise();
}

void lose(int us) {
  if (us != 0) {
    usleep(static_cast<useconds_t>(us));
  }
}

}  // namespace

void reads_two_values(Job& job, int steps, void* value, int every, int us) {
  for (int i = 0; i < steps; ++i) {
    CUDA_CHECK(cudaEventRecord(job.begins.next(), job.stream));
    job.launch(job.forward);
    job.launch(job.backward);
    read(job, value);
    job.launch(job.update);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    read(job, value);
    if (i % every == every - 1) {
      lose(us);
    }
  }
}

void reads_after_each_batch(Job& job, int steps, void* value, int batches, int us) {
  for (int i = 0; i < steps; ++i) {
    for (int batch = 0; batch < batches; ++batch) {
      job.launch(job.forward);
      read(job, value);
      lose(us);
    }
    job.launch(job.update);
  }
}

void uses_new_code(Job& job, int steps, void* value) {
  for (int i = 0; i < steps; ++i) {
    CUlaunchConfig once{};
    once.gridDimX = once.gridDimY = once.gridDimZ = 1;
    once.blockDimX = once.blockDimY = once.blockDimZ = 1;
    once.hStream = job.stream;
    CU_CHECK(
        cuLaunchKernelEx(&once, job.kernel("forward_of_" + std::to_string(i)), nullptr, nullptr));
    job.step(false);
    read(job, value);
  }
}

void prepares(Job& job, int steps, void* value, int every, int us) {
  for (int i = 0; i < steps; ++i) {
    lose(us);
    job.step(false);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    if (i % every == every - 1) {
      read(job, value);
    }
  }
}

void prepares_other_work(Job& job, int steps, int us) {
  for (int i = 0; i < steps; ++i) {
    lose(us);
    job.step(false, static_cast<unsigned>(i) + 1);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
  }
}

void reads_and_pauses(Job& job, int steps, void* value, int us) {
  constexpr int kSteps = 6;
  for (int i = 0; i < steps; ++i) {
    job.step(false);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    read(job, value);
    if (i % kSteps == kSteps - 1) {
      lose(us);
    }
  }
}
