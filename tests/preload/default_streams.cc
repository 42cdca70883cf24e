// Default streams: one for each device, whoever uses it, and whether they chose that device or not.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawTrace;
namespace format = traintrace::format;

// Devices of the default streams that it used.
std::vector<int> default_streams_of(const std::string& role) {
  const Folder folder;
  preload::Program program = preload::self(role);
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"SIMGPU_DEVICES", "2"}};
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.output << outcome.errors;
  const auto traces = folder.traces();
  const RawTrace trace = traces.size() == 1 ? preload::read_raw(traces[0]) : RawTrace{};
  EXPECT_EQ(traces.size(), 1u);
  std::vector<int> devices;
  for (const format::Stream& stream : trace.streams) {
    if ((stream.flags & format::kImplicit) != 0) {
      devices.push_back(stream.device);
    }
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

// Of a stream that carries a collective.
cudaEvent_t g_event = nullptr;

bool works(cudaError_t result) {
  return result == cudaSuccess;
}

bool records() {
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  ncclComm_t communicator = nullptr;
  const int device = 0;
  return cuInit(0) == CUDA_SUCCESS && works(cudaMalloc(&memory, 64)) &&
         works(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) &&
         works(cudaEventCreate(&g_event)) &&
         ncclCommInitAll(&communicator, 1, &device) == ncclSuccess &&
         ncclAllReduce(memory, memory, 4, ncclInt32, ncclSum, communicator, stream) ==
             ncclSuccess &&
         works(cudaEventRecord(g_event, stream));
}

// On the thread's default stream; -1: it chooses no device.
bool waits(int device) {
  return (device < 0 || works(cudaSetDevice(device))) &&
         works(cudaStreamWaitEvent(nullptr, g_event, 0)) && works(cudaStreamSynchronize(nullptr));
}

bool on_a_thread(const std::function<bool()>& work) {
  bool worked = false;
  std::thread([&] { worked = work(); }).join();
  return worked;
}

int waits_of(int first, int second) {
  const bool worked = on_a_thread(records) && on_a_thread([=] { return waits(first); }) &&
                      on_a_thread([=] { return waits(second); });
  return worked ? 0 : 1;
}

// As of PyTorch's threads: the main one chooses the first device, that for backward passes none.
ROLE(chosen_and_not) {
  return waits_of(0, -1);
}

TEST(DefaultStreams, TheFirstDeviceHasOneForThreadsThatChoseNone) {
  EXPECT_EQ(default_streams_of("chosen_and_not"), std::vector<int>{0});
}

ROLE(another_and_not) {
  return waits_of(1, -1);
}

TEST(DefaultStreams, AnotherDeviceHasItsOwn) {
  EXPECT_EQ(default_streams_of("another_and_not"), (std::vector<int>{0, 1}));
}

}  // namespace
