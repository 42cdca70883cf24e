// What the files of cases share.  Each case is a function that prints what it saw and returns the
// status that the program ends with.
#pragma once

#include <cuda_runtime_api.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

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

// The status of a child that has ended; 128 + N after signal N.
inline int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// children.cc
int wait_for_anybody();
int subreaper(bool called_before);
int ignores_children();
int waits_for_signals();
int counts_signals();
int kills_its_group();
int daemonizes(const char* folder);
int ends_by_system_call();
int makes_processes_that_share_memory();
int closes_what_it_inherits();

// limits.cc
bool become_nobody();
int closed_standard_files(const char* folder, bool called_before);
int opens_a_file(const char* folder);
int close_all_files(const char* folder);
int no_descriptors(bool called_before);
int few_descriptors(int most);
int limited_memory(__rlimit_resource resource, size_t mb);
int no_processes(bool called_before);
int in_an_empty_root(const char* folder, bool called_before);
int in_a_removed_folder(const char* folder);
int locks_memory();

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
