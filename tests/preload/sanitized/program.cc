// A bit of everything, for sanitizers to look at while the tracer is there: threads, exceptions,
// allocations, streams, events, NCCL, a forked child.  Prints what it found.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(int result, const char* what) {
  if (result != 0) {
    std::printf("%s: %d\n", what, result);
    std::exit(1);
  }
}
#define CHECK(call) check(call, #call)

constexpr size_t kCount = 4096;
constexpr size_t kBytes = kCount * sizeof(int);
constexpr int kDevices = 2;

void fail_below(int frames) {
  if (frames == 0) {
    throw std::runtime_error("thrown");
  }
  fail_below(frames - 1);
  std::atexit([] {});  // no tail call
}

long copy_there_and_back(int seed) {
  std::vector<int> values(kCount, seed);
  std::vector<int> back(kCount);
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int i = 0; i < 20; ++i) {
    CHECK(cudaMalloc(&memory, kBytes));
    CHECK(cudaMemcpyAsync(memory, values.data(), kBytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaMemcpyAsync(back.data(), memory, kBytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(memory));
  }
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  return std::accumulate(back.begin(), back.end(), 0L);
}

void sum_over_devices() {
  ncclComm_t communicators[kDevices] = {};
  void* memory[kDevices] = {};
  std::vector<int> values(kCount, 5);
  CHECK(ncclCommInitAll(communicators, kDevices, nullptr));
  for (int device = 0; device < kDevices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&memory[device], kBytes));
    CHECK(cudaMemcpy(memory[device], values.data(), kBytes, cudaMemcpyHostToDevice));
  }
  CHECK(ncclGroupStart());
  for (int device = 0; device < kDevices; ++device) {
    CHECK(ncclAllReduce(memory[device], memory[device], kCount, ncclInt, ncclSum,
                        communicators[device], nullptr));
  }
  CHECK(ncclGroupEnd());
  for (int device = 0; device < kDevices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaMemcpy(values.data(), memory[device], kBytes, cudaMemcpyDeviceToHost));
    std::printf("device %d: %d\n", device, values.back());
    CHECK(cudaFree(memory[device]));
    CHECK(ncclCommDestroy(communicators[device]));
  }
}

}  // namespace

int main() {
  std::vector<long> sums(3);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < sums.size(); ++i) {
    threads.emplace_back([&sums, i] { sums[i] = copy_there_and_back(static_cast<int>(i) + 1); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const long sum : sums) {
    std::printf("sum %ld\n", sum);
  }
  sum_over_devices();
  try {
    fail_below(10);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
  }
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    void* memory = nullptr;
    _exit(cudaMalloc(&memory, kBytes));  // CUDA does not work there
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d\n", WEXITSTATUS(status));
  return 0;
}
