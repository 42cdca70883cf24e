// What the tests of the driver's core share: a context, streams that can be held up, kernels with
// bodies.
#pragma once
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "simgpu.h"

#define EXPECT_CUDA(code, call) EXPECT_EQ(CUDA_##code, call)
#define ASSERT_OK(call) ASSERT_EQ(CUDA_SUCCESS, call)
#define EXPECT_OK(call) EXPECT_EQ(CUDA_SUCCESS, call)

namespace driver_test {

// Holds up the streams it is put on until it is opened.
class Gate {
 public:
  void hold(CUstream stream) {
    const CUhostFn wait = [](void* self) { static_cast<Gate*>(self)->wait(); };
    ASSERT_OK(cuLaunchHostFunc(stream, wait, this));
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class Driver : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_OK(cuCtxSetCurrent(context_));
    static const char image[64] = "not the vendor's format";
    ASSERT_OK(cuModuleLoadData(&module_, image));
  }

  CUfunction function(const char* name) {
    CUfunction out = nullptr;
    EXPECT_OK(cuModuleGetFunction(&out, module_, name));
    return out;
  }

  CUstream stream(unsigned flags = CU_STREAM_DEFAULT) {
    CUstream out = nullptr;
    EXPECT_OK(cuStreamCreate(&out, flags));
    return out;
  }

  static CUresult launch(CUfunction function, CUstream stream, void** arguments = nullptr) {
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr);
  }

  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
};

// Runs the (disabled) tests `filter` of this program in a new process with NAME=VALUE.. set;
// returns its exit status, 0 if they passed.
inline int run_again(const std::string& filter, const std::string& environment) {
  std::string self(4096, '\0');
  self.resize(static_cast<size_t>(readlink("/proc/self/exe", self.data(), self.size())));
  const std::string command = environment + " '" + self +
                              "' --gtest_also_run_disabled_tests --gtest_filter='" + filter +
                              "' >/dev/null";
  const int status = system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace driver_test
