// Ranks in processes of their own, watched from outside.
//
// The test process itself never touches CUDA: it forks a child for each process of the experiment,
// so that a child may hang, crash or be killed, and so that settings hold for one experiment only.
#pragma once
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nccl_test {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Only for what must happen: reached by a broken library or a machine that stands still.
constexpr milliseconds kLimit{250'000};
// How long something must not happen before it counts as hanging.  A slow machine makes such a
// check weaker, never wrong.
constexpr milliseconds kHang{300};
constexpr int kMaxProcesses = 16;

// In a child: says what failed and ends it.
#define NEED(condition)                                                                     \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%s:%d: %s does not hold; last NCCL error: %s\n", __FILE__, __LINE__, \
              #condition, ncclGetLastError(nullptr));                                       \
      fflush(nullptr);                                                                      \
      _exit(1);                                                                             \
    }                                                                                       \
  } while (false)
inline void need_equal(long long actual, long long expected, const char* what, const char* file,
                       int line) {
  if (actual != expected) {
    fprintf(stderr, "%s:%d: %s is %lld, not %lld; last NCCL error: %s\n", file, line, what, actual,
            expected, ncclGetLastError(nullptr));
    fflush(nullptr);
    _exit(1);
  }
}
#define NEED_EQ(actual, expected) \
  nccl_test::need_equal(actual, expected, #actual, __FILE__, __LINE__)
#define CUDA_OK(call) NEED_EQ(call, cudaSuccess)
#define NCCL_OK(call) NEED_EQ(call, ncclSuccess)

// Memory that all processes of an experiment see.
struct Board {
  std::atomic<int> stage[kMaxProcesses];
  std::atomic<int> gate;
  ncclUniqueId ids[8];
};

// What a child is given.
struct Process {
  int index;
  int count;
  Board& board;

  const ncclUniqueId& id(int n = 0) const { return board.ids[n]; }
  // Tells the watcher how far this process has come.
  void reach(int stage) const { board.stage[index].store(stage); }
  void wait_for_gate(int value) const {
    while (board.gate.load() < value) {
      usleep(500);
    }
  }
  void wait_for_stage(int other, int stage) const {
    while (board.stage[other].load() < stage) {
      usleep(500);
    }
  }
};

class World {
 public:
  using Settings = std::vector<std::pair<const char*, const char*>>;

  World(int count, const std::function<void(const Process&)>& body, const Settings& settings = {})
      : board_(static_cast<Board*>(mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))),
        pids_(static_cast<size_t>(count)),
        status_(static_cast<size_t>(count), -1) {
    for (ncclUniqueId& id : board_->ids) {
      ncclGetUniqueId(&id);
    }
    for (int i = 0; i < count; ++i) {
      pids_[static_cast<size_t>(i)] = start(i, count, body, settings);
    }
  }
  ~World() {
    for (size_t i = 0; i < pids_.size(); ++i) {
      if (status_[i] < 0) {
        ::kill(pids_[i], SIGKILL);
        waitpid(pids_[i], nullptr, 0);
      }
    }
    munmap(board_, sizeof(Board));
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Board& board() { return *board_; }
  int stage(int process) const { return board_->stage[process].load(); }
  void open_gate(int value) { board_->gate.store(value); }
  void kill(int process) {
    ::kill(pids_[static_cast<size_t>(process)], SIGKILL);
    waitpid(pids_[static_cast<size_t>(process)], &status_[static_cast<size_t>(process)], 0);
  }

  // Exit codes are 0 for success.  These wait for what must happen.
  testing::AssertionResult finishes(int process) {
    const auto index = static_cast<size_t>(process);
    return within_limit([&] { return ended(index); }, process, "end") << describe(index);
  }
  testing::AssertionResult succeeds(int process) {
    const testing::AssertionResult result = finishes(process);
    const int status = status_[static_cast<size_t>(process)];
    return result && status != 0 ? testing::AssertionFailure()
                                       << "process " << process << " ended with status " << status
                                 : result;
  }
  testing::AssertionResult all_succeed() {
    for (size_t i = 0; i < pids_.size(); ++i) {
      if (testing::AssertionResult result = succeeds(static_cast<int>(i)); !result) {
        return result;
      }
    }
    return testing::AssertionSuccess();
  }
  testing::AssertionResult reaches(int process, int stage) {
    const auto index = static_cast<size_t>(process);
    return within_limit([&] { return this->stage(process) >= stage || ended(index); }, process,
                        "arrive") &&
                   this->stage(process) >= stage
               ? testing::AssertionSuccess()
               : testing::AssertionFailure()
                     << "process " << process << " is at stage " << this->stage(process) << ", not "
                     << stage << describe(index);
  }
  // It has come to `stage` and goes no further.
  testing::AssertionResult hangs_at(int process, int stage) {
    if (testing::AssertionResult result = reaches(process, stage); !result) {
      return result;
    }
    const auto index = static_cast<size_t>(process);
    for (const auto end = Clock::now() + kHang; Clock::now() < end; usleep(5'000)) {
      if (ended(index) || this->stage(process) != stage) {
        return testing::AssertionFailure() << "process " << process << " went on to stage "
                                           << this->stage(process) << describe(index);
      }
    }
    return testing::AssertionSuccess();
  }

 private:
  pid_t start(int index, int count, const std::function<void(const Process&)>& body,
              const Settings& settings) {
    fflush(nullptr);
    const pid_t pid = fork();
    if (pid != 0) {
      return pid;
    }
    setenv("SIMGPU_DEVICES", "8", 1);
    for (const auto& [name, value] : settings) {
      setenv(name, value, 1);
    }
    body(Process{index, count, *board_});
    fflush(nullptr);
    _exit(0);
  }

  bool ended(size_t index) {
    if (status_[index] < 0 && waitpid(pids_[index], &status_[index], WNOHANG) == 0) {
      status_[index] = -1;
    }
    return status_[index] >= 0;
  }

  std::string describe(size_t index) {
    return ended(index) ? "; it ended with status " + std::to_string(status_[index]) : "";
  }

  testing::AssertionResult within_limit(const std::function<bool()>& happened, int process,
                                        const char* what) {
    for (const auto end = Clock::now() + kLimit; !happened(); usleep(1'000)) {
      if (Clock::now() > end) {
        return testing::AssertionFailure()
               << "process " << process << " did not " << what << " in time";
      }
    }
    return testing::AssertionSuccess();
  }

  Board* const board_;
  std::vector<pid_t> pids_;
  std::vector<int> status_;
};

// One rank in the usual shape: a device, a stream, a communicator.
struct Rank {
  int rank = 0;
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  static Rank join(const ncclUniqueId& id, int count, int rank) {
    Rank made{.rank = rank, .device = rank};
    CUDA_OK(cudaSetDevice(made.device));
    CUDA_OK(cudaStreamCreateWithFlags(&made.stream, cudaStreamNonBlocking));
    NCCL_OK(ncclCommInitRank(&made.comm, count, id, rank));
    return made;
  }
  void sync() const { CUDA_OK(cudaStreamSynchronize(stream)); }
  void leave() {
    NCCL_OK(ncclCommDestroy(comm));
    CUDA_OK(cudaStreamDestroy(stream));
  }
};

// Device memory filled with one value.
template <class T = float>
T* device_array(size_t count, T value) {
  T* memory = nullptr;
  const std::vector<T> host(count, value);
  CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&memory), count * sizeof(T)));
  CUDA_OK(cudaMemcpy(memory, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
  // The call may return before the bytes of pageable memory are there.
  CUDA_OK(cudaStreamSynchronize(nullptr));
  return memory;
}

template <class T = float>
std::vector<T> to_host(const T* memory, size_t count) {
  std::vector<T> host(count);
  CUDA_OK(cudaMemcpy(host.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}

template <class T = float>
bool all_equal(const T* memory, size_t count, T value) {
  for (const T element : to_host(memory, count)) {
    if (element != value) {
      fprintf(stderr, "an element is %g, not %g\n", double(element), double(value));
      return false;
    }
  }
  return true;
}

}  // namespace nccl_test
