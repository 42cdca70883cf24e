// What the files of cases share.  Each case is a function that prints what it saw and returns the
// status that the program ends with.
#pragma once

#include <cuda_runtime_api.h>

namespace unharmed {

inline void call(int value = 0) {
  cudaMemset(nullptr, value, 0);
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
