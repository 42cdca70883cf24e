// What the files of cases share.  Each case is a function that prints what it saw and returns the
// status that the program ends with.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

namespace unharmed {

inline std::atomic<bool> g_copies = true;  // calls move data, too

// With a batch that is sent and a number that is fetched, whose values are recorded.
inline void call(int value = 0) {
  cudaMemset(nullptr, value, 0);
  if (g_copies) {
    char batch[512] = {};
    int number = value;
    cudaMemcpy(nullptr, batch, sizeof batch, cudaMemcpyHostToDevice);
    cudaMemcpy(&number, nullptr, sizeof number, cudaMemcpyDeviceToHost);
  }
}

inline void calls(int count) {
  for (int i = 0; i < count; ++i) {
    call(i);
  }
}

// stacks.cc
int handles_faults();
int handles_on_small_stacks();

}  // namespace unharmed
