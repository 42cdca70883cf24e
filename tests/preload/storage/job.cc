// The job whose trace the tests of this folder look after.  What it does is its first argument.
//
// clang-format off
//   work SHARED SECONDS THREADS PAUSE_US STATUS   calls; counts in the file SHARED what has returned
//   once [SECONDS]                                one cudaMalloc
//   calls ALLOCATIONS CALLS HOW                   that many; ends with that status, HOW < 0: by that signal
//   hog MEBIBYTES CALLS [FILE]                    a call, takes that much memory, those calls; with FILE
//                                                 it takes a file of that name instead
//   between FILE                                  one cudaMalloc once FILE is there; ends when it
//                                                 is gone
//   later FILE                                    the same, and recorded before
//   child FILE                                    as between, in a child whose number is printed
//   leave THREADS                                 exits while they call
//   reap                                          waits for all its children, as shells do
// clang-format on
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;

constexpr int kMaxThreads = 8;

// Mapped by the test, too; storage.py knows its layout.
struct Counts {
  uint64_t entering[kMaxThreads];
  uint64_t returned[kMaxThreads];
  uint64_t longest_ns;  // of a call but the first of a thread
  uint64_t first_ns;    // the longest first call
};

Counts* map_counts(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Counts)) != 0) {
    return nullptr;
  }
  void* const memory = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Counts*>(memory);
}

void raise_to(uint64_t& value, uint64_t candidate) {
  std::atomic_ref<uint64_t> shared(value);
  for (uint64_t old = shared; old < candidate && !shared.compare_exchange_weak(old, candidate);) {
  }
}

void call_until(Clock::time_point end, Counts& counts, int thread, int pause_us) {
  for (bool first = true; Clock::now() < end; first = false) {
    __atomic_add_fetch(&counts.entering[thread], 1, __ATOMIC_SEQ_CST);
    const auto before = Clock::now();
    cudaMemset(nullptr, thread, 0);
    const uint64_t ns = std::chrono::nanoseconds(Clock::now() - before).count();
    __atomic_add_fetch(&counts.returned[thread], 1, __ATOMIC_SEQ_CST);
    raise_to(first ? counts.first_ns : counts.longest_ns, ns);
    if (pause_us > 0) {
      usleep(pause_us);
    }
  }
}

int work(char** arguments) {
  Counts* const counts = map_counts(arguments[0]);
  if (!counts) {
    return 3;
  }
  const auto end =
      Clock::now() + duration_cast<Clock::duration>(duration<double>(atof(arguments[1])));
  const int pause_us = atoi(arguments[3]);
  void* memory = nullptr;
  if (getenv("STORAGE_JOB_ALLOCATES") != nullptr) {  // so that it has a context
    cudaMalloc(&memory, 256);
  }
  cudaFree(memory);
  std::vector<std::thread> all;
  for (int i = 0; i < atoi(arguments[2]) && i < kMaxThreads; ++i) {
    all.emplace_back(call_until, end, std::ref(*counts), i, pause_us);
  }
  for (std::thread& thread : all) {
    thread.join();
  }
  printf("done\n");
  return atoi(arguments[4]);
}

int once(const char* seconds) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, 1 << 20) != cudaSuccess) {
    return 1;
  }
  usleep(static_cast<useconds_t>(atof(seconds) * 1e6));
  return 0;
}

int calls(char** arguments) {
  for (int i = atoi(arguments[0]); i > 0; --i) {
    void* memory = nullptr;
    cudaMalloc(&memory, 256);
  }
  for (int i = atoi(arguments[1]); i > 0; --i) {
    cudaMemset(nullptr, 0, 0);
  }
  const int how = atoi(arguments[2]);
  if (how < 0) {
    raise(-how);
  }
  return how;
}

void* g_taken = nullptr;

// In memory of its own, or in a file as large as there is room for.
bool take(size_t bytes, const char* path) {
  if (!path) {
    g_taken = malloc(bytes);
    return g_taken && memset(g_taken, 1, bytes) != nullptr;
  }
  const int file = open(path, O_WRONLY | O_CREAT, 0600);
  const std::vector<char> part(1 << 16, 'x');
  for (size_t done = 0; file >= 0 && done < bytes; done += part.size()) {
    if (write(file, part.data(), part.size()) < 0) {
      return errno == ENOSPC;
    }
  }
  return file >= 0;
}

int hog(int count, char** arguments) {
  cudaFree(nullptr);
  if (!take(strtoul(arguments[0], nullptr, 10) << 20, count > 2 ? arguments[2] : nullptr)) {
    return 1;
  }
  for (int i = atoi(arguments[1]); i > 0; --i) {
    cudaMemset(nullptr, 0, 0);
  }
  return 0;
}

void wait_until(const char* file, bool there) {
  while ((access(file, F_OK) == 0) != there) {
    usleep(10'000);
  }
}

// Threads that still call when the process exits.
int leave(int threads) {
  cudaFree(nullptr);
  for (int i = 0; i < threads; ++i) {
    std::thread([i] {
      for (;;) {
        cudaMemset(nullptr, i, 0);
      }
    }).detach();
  }
  usleep(300'000);
  return 0;
}

int between(const char* file) {
  wait_until(file, true);
  void* memory = nullptr;
  const bool good = cudaMalloc(&memory, 1 << 20) == cudaSuccess;
  wait_until(file, false);
  return good ? 0 : 1;
}

int between_in_child(const char* file) {
  const pid_t child = fork();
  if (child == 0) {
    return between(file);
  }
  printf("%d\n", child);
  fflush(stdout);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

std::atomic<int> g_signals = 0;

// Says what it saw that was not its own.
int reap() {
  signal(SIGCHLD, [](int) { ++g_signals; });
  cudaFree(nullptr);
  usleep(300'000);
  const int strange_signals = g_signals;
  int foreign = 0;
  if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) {
    ++foreign;
  }
  std::vector<pid_t> own;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      cudaFree(nullptr);  // a traced child, with a keeper of its own
      exit(0);
    }
    own.push_back(child);
  }
  int reaped = 0;
  for (;;) {
    const pid_t gone = wait(nullptr);
    if (gone < 0 && errno == EINTR) {
      continue;
    }
    if (gone < 0) {
      break;
    }
    ++reaped;
    foreign += gone != own[0] && gone != own[1] && gone != own[2];
  }
  foreign += waitpid(-1, nullptr, WNOHANG | __WALL) > 0;
  printf("reaped %d foreign %d strange-signals %d\n", reaped, foreign, strange_signals);
  return errno == ECHILD ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const char* const what = count > 1 ? arguments[1] : "";
  if (!strcmp(what, "work") && count == 7) {
    return work(arguments + 2);
  }
  if (!strcmp(what, "once")) {
    return once(count > 2 ? arguments[2] : "0");
  }
  if (!strcmp(what, "calls") && count == 5) {
    return calls(arguments + 2);
  }
  if (!strcmp(what, "hog") && count >= 4) {
    return hog(count - 2, arguments + 2);
  }
  if (!strcmp(what, "leave") && count == 3) {
    return leave(atoi(arguments[2]));
  }
  if (!strcmp(what, "later") && count == 3) {
    cudaFree(nullptr);
    return between(arguments[2]);
  }
  if (!strcmp(what, "child") && count == 3) {
    return between_in_child(arguments[2]);
  }
  if (!strcmp(what, "between") && count == 3) {
    return between(arguments[2]);
  }
  return !strcmp(what, "reap") ? reap() : 2;
}
