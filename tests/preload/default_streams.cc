// Default streams: one for each device, whoever uses it, and whether they chose that device or not.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawTrace;
namespace format = traintrace::format;

// Devices of the default streams that carried something.
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
    if ((stream.flags & format::kImplicit) != 0 && stream.issued != 0) {
      devices.push_back(stream.device);
    }
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

bool sets_memory(int device) {
  void* memory = nullptr;
  return (device < 0 || cudaSetDevice(device) == cudaSuccess) &&
         cudaMalloc(&memory, 64) == cudaSuccess &&
         cudaMemsetAsync(memory, 0, 64, nullptr) == cudaSuccess &&
         cudaStreamSynchronize(nullptr) == cudaSuccess;
}

// As of PyTorch's threads: the main one chooses the first device, that for backward passes none.
ROLE(chosen_and_not) {
  bool all = sets_memory(0);
  std::thread([&] { all = sets_memory(-1) && all; }).join();
  return all ? 0 : 1;
}

TEST(DefaultStreams, TheFirstDeviceHasOneForThreadsThatChoseNone) {
  EXPECT_EQ(default_streams_of("chosen_and_not"), std::vector<int>{0});
}

ROLE(two_devices) {
  bool all = sets_memory(1);
  std::thread([&] { all = sets_memory(-1) && all; }).join();
  return all ? 0 : 1;
}

TEST(DefaultStreams, AnotherDeviceHasItsOwn) {
  EXPECT_EQ(default_streams_of("two_devices"), (std::vector<int>{0, 1}));
}

}  // namespace
