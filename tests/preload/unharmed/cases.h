// What the files of cases share.  Each case is a function that prints what it saw and returns the
// status that the program ends with.
#pragma once

#include <cuda_runtime_api.h>
#include <grp.h>
#include <unistd.h>

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

inline bool become_nobody() {
  constexpr uid_t kNobody = 65534;
  return setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0;
}

// hostile.cc
int locks_little();
int calls_at_end_of_threads();
int calls_when_it_forks();
int calls_in_threads_of_timers();
int cancels_at_any_instruction();

// stacks.cc
int handles_faults();
int handles_on_small_stacks();

}  // namespace unharmed
