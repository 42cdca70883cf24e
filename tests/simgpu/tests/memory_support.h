// What the memory tests share: a context, a stream that can be blocked, child processes.
#pragma once
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#define CU_OK(call) ASSERT_EQ((call), CUDA_SUCCESS)

// Settings must be in place before the driver is first used; each test program is alone on its
// "machine".
// A child keeps its parent's settings.
inline void be_alone(const char* memory = "64M", const char* devices = "2") {
  if (getenv("TEST_ROLE")) {
    return;
  }
  setenv("SIMGPU_MEMORY", memory, 1);
  setenv("SIMGPU_DEVICES", devices, 1);
  setenv("SIMGPU_NODE", ("test-" + std::to_string(getpid())).c_str(), 1);
}

class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CU_OK(cuInit(0));
    CU_OK(cuDevicePrimaryCtxRetain(&context_, 0));
    CU_OK(cuCtxSetCurrent(context_));
  }
  void TearDown() override {
    EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    cuDevicePrimaryCtxRelease(0);
  }

  static size_t free_bytes() {
    size_t free = 0, total = 0;
    EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
    return free;
  }
  static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc(&address, bytes), CUDA_SUCCESS);
    return address;
  }

  CUcontext context_ = nullptr;
};

// Keeps a stream from getting past this point until release().
class Blocker {
 public:
  explicit Blocker(CUstream stream) {
    const CUhostFn wait = [](void* self) {
      while (!static_cast<Blocker*>(self)->released_) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      static_cast<Blocker*>(self)->passed_ = true;
    };
    EXPECT_EQ(cuLaunchHostFunc(stream, wait, this), CUDA_SUCCESS);
  }
  ~Blocker() {
    release();
    while (!passed_) {
      std::this_thread::yield();
    }
  }
  void release() { released_ = true; }
  bool passed() const { return passed_; }

 private:
  std::atomic<bool> released_{false};
  std::atomic<bool> passed_{false};
};

// Runs `call` in a thread; says if it returned within `limit`.
class Watched {
 public:
  explicit Watched(CUcontext context, std::function<CUresult()> call)
      : thread_([this, context, call = std::move(call)] {
          cuCtxSetCurrent(context);
          result_ = call();
          done_ = true;
        }) {}
  ~Watched() { thread_.join(); }
  bool returns_within(std::chrono::milliseconds limit) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!done_ && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return done_;
  }
  CUresult result() const { return result_; }

 private:
  std::atomic<bool> done_{false};
  std::atomic<CUresult> result_{CUDA_ERROR_UNKNOWN};
  std::thread thread_;
};

// A process of this same program: it starts over at main with `role` in the environment, since a
// fork of a process that uses CUDA cannot use it.  Connected to us by its standard input and
// output.
class Child {
 public:
  explicit Child(const std::string& role) {
    int to[2], from[2];
    EXPECT_EQ(pipe(to) | pipe(from), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      for (const int file : {to[0], to[1], from[0], from[1]}) {
        close(file);
      }
      setenv("TEST_ROLE", role.c_str(), 1);
      execl("/proc/self/exe", "child", nullptr);
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    to_ = to[1];
    from_ = from[0];
  }
  ~Child() {
    close(to_);
    close(from_);
    if (pid_ > 0) {
      wait();
    }
  }
  void send(const void* data, size_t bytes) {
    EXPECT_EQ(write(to_, data, bytes), static_cast<ssize_t>(bytes));
  }
  void receive(void* data, size_t bytes) {
    for (size_t got = 0; got < bytes;) {
      const ssize_t n = read(from_, static_cast<char*>(data) + got, bytes - got);
      ASSERT_GT(n, 0) << "the child ended";
      got += static_cast<size_t>(n);
    }
  }
  int wait() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
  int to_;
  int from_;
};

// For the child's side.
inline void tell(const void* data, size_t bytes) {
  if (write(1, data, bytes) != static_cast<ssize_t>(bytes)) {
    _exit(3);
  }
}
inline void hear(void* data, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    const ssize_t n = read(0, static_cast<char*>(data) + got, bytes - got);
    if (n <= 0) {
      _exit(4);
    }
    got += static_cast<size_t>(n);
  }
}
