// A rank's job of steps, on the driver's API, and what a case says of itself.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <string>
#include <vector>

inline constexpr size_t kCopyBytes = 1 << 20;

// `KEY NS` for judge.py; of all ranks the largest counts, or with a `+` before the key the sum.
void say(const char* key, int64_t ns);

int64_t now_ns();
// How long threads of this process have waited for a processor (the second number of schedstat); 0
// where the kernel does not count it.
int64_t delayed_ns();

// Events that tell the time, one for each step, made before the first.
class Moments {
 public:
  explicit Moments(int steps);
  cudaEvent_t next() { return events_[used_++]; }
  // From the i-th of `from` to the (i + shift)-th of these, where that is later.
  int64_t since(const Moments& from, size_t shift) const;

 private:
  std::vector<cudaEvent_t> events_;
  size_t used_ = 0;
};

struct Job {
  explicit Job(int steps);
  void launch(CUfunction kernel, unsigned blocks = 1) const;
  void launch(const std::vector<CUfunction>& kernels, unsigned blocks = 1) const;
  // Forward, then the gradients' collective beside the backward pass, then the update.
  void step(bool communicates, unsigned blocks = 1);
  // What is on `stream` now comes before what will be on `later`.
  void order(cudaStream_t earlier, cudaStream_t later) const;
  // As many collectives one after the other, behind the backward pass.
  void step_with(int collectives, size_t elements);
  void synchronise() const;
  CUfunction kernel(const std::string& name) const;

  CUmodule module = nullptr;
  cudaStream_t stream = nullptr;
  cudaStream_t side = nullptr;
  cudaEvent_t ready = nullptr;
  Moments begins, backward_ends, reduced, ends;
  std::vector<CUfunction> forward, backward, update;
  ncclComm_t comm = nullptr;
  float* gradients = nullptr;
  char* batch = nullptr;
};
