// What GPUs a process sees, as facts that NVML's devices can be joined by.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using Facts = std::map<std::string, std::string>;

constexpr const char* kShared =
    "traintrace: GPU 0 is shared through MPS: what other processes do there is not recorded, and "
    "takes time and memory from this one\n";

std::map<std::string, std::string> simgpu(const std::string& failing = "") {
  return {{"SIMGPU_DEVICES", "2"}, {"SIMGPU_FAIL", failing}};
}

Facts facts_of(const std::string& role, const std::map<std::string, std::string>& environment) {
  const preload::Folder folder;
  preload::Program program = preload::self(role);
  program.environment = environment;
  program.environment["TRAINTRACE_DIR"] = folder.path();
  const preload::Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.output << outcome.errors;
  if (folder.traces().empty()) {
    EXPECT_EQ(outcome.errors, "");
    return {};
  }
  const preload::RawTrace trace = preload::read_raw(folder.traces().front());
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(outcome.errors, trace.facts.count("gpu-0-mps") != 0 ? kShared : "");
  return trace.facts;
}

int must(int result) {
  return result == 0 ? 0 : 1;
}

ROLE(allocates_by_the_driver) {
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  return must(cuInit(0)) + must(cuDevicePrimaryCtxRetain(&context, 0)) +
         must(cuCtxSetCurrent(context)) + must(cuMemAlloc(&memory, 64));
}

// The runtime initializes the driver within this call.
ROLE(allocates_once) {
  void* memory = nullptr;
  return must(cudaMalloc(&memory, 64));
}

TEST(GpuIdentities, AreThoseOfTheDriver) {
  for (const char* role : {"allocates_by_the_driver", "allocates_once"}) {
    Facts facts = facts_of(role, simgpu());
    EXPECT_EQ(facts["gpu-0-uuid"], "GPU-73696d67-7075-2d64-6576-6963652d0000") << role;
    EXPECT_EQ(facts["gpu-1-uuid"], "GPU-73696d67-7075-2d64-6576-6963652d0001") << role;
    EXPECT_EQ(facts["gpu-0-pci"], "0000:01:00.0") << role;
    EXPECT_EQ(facts["gpu-1-pci"], "0000:02:00.0") << role;
    EXPECT_EQ(facts["gpu-1-memory"], "17179869184") << role;  // SIMGPU_MEMORY's default
    EXPECT_EQ(facts.count("gpu-2-uuid") + facts.count("gpu-2-pci"), 0U) << role;
  }
}

TEST(GpuIdentities, SayWhetherMpsSharesThem) {
  auto environment = simgpu();
  Facts facts = facts_of("allocates_once", environment);
  EXPECT_EQ(facts.count("gpu-0-mps") + facts.count("gpu-1-mps"), 0U);
  environment["SIMGPU_MPS"] = "1";
  facts = facts_of("allocates_by_the_driver", environment);
  EXPECT_EQ(facts["gpu-0-mps"], "on");
  EXPECT_EQ(facts["gpu-1-mps"], "on");
  // As drivers do that do not know the attribute.
  environment["SIMGPU_FAIL"] = "cuDeviceGetAttribute@1+=1";
  facts = facts_of("allocates_by_the_driver", environment);
  EXPECT_EQ(facts.count("gpu-0-mps") + facts.count("gpu-1-mps"), 0U);
  EXPECT_EQ(facts.count("gpu-0-uuid"), 1U);
}

// Each attempt is made once for a device, and what is known of it is kept.
TEST(GpuIdentities, OfADriverThatRefusesAreLeftOut) {
  Facts facts = facts_of("allocates_once", simgpu("cuDeviceGetUuid@1=1"));
  EXPECT_EQ(facts.count("gpu-0-uuid"), 0U);
  EXPECT_EQ(facts.count("gpu-1-uuid"), 1U);
  EXPECT_EQ(facts["gpu-0-pci"], "0000:01:00.0");
  facts = facts_of("allocates_once", simgpu("cuDeviceGetPCIBusId@1+=1"));
  EXPECT_EQ(facts.count("gpu-0-pci") + facts.count("gpu-1-pci"), 0U);
  EXPECT_EQ(facts.count("gpu-0-uuid"), 1U);
  facts = facts_of("allocates_once", simgpu("cuDeviceTotalMem_v2@1=1"));
  EXPECT_EQ(facts.count("gpu-0-memory"), 0U);
  EXPECT_EQ(facts.count("gpu-1-memory"), 1U);
}

ROLE(asks_for_its_error) {
  void* memory = nullptr;
  return must(cudaMalloc(&memory, 64)) + must(cudaFree(memory)) + must(cudaGetLastError());
}

// The job's own calls see nothing of it, not even an error that was ours.
TEST(GpuIdentities, LeaveNoErrorBehind) {
  EXPECT_FALSE(
      facts_of("asks_for_its_error", simgpu("cuDeviceGetUuid@1+=1,cuDeviceGetPCIBusId@1+=1"))
          .empty());
}

struct ProcessInfo {
  unsigned pid;
  unsigned long long bytes;
};
using Ask = int (*)(void*, unsigned*, ProcessInfo*);

// As PyTorch does when it runs out of memory.
ROLE(asks_who_is_there) {
  void* memory = nullptr;
  void* const nvml = dlopen(PRELOAD_BUILD "/simgpu/nvml/libnvidia-ml.so.1", RTLD_LAZY);
  const auto find = reinterpret_cast<int (*)(const char*, void**)>(
      nvml != nullptr ? dlsym(nvml, "nvmlDeviceGetHandleByPciBusId_v2") : nullptr);
  const auto ask = reinterpret_cast<Ask>(
      nvml != nullptr ? dlsym(nvml, "nvmlDeviceGetComputeRunningProcesses") : nullptr);
  void* device = nullptr;
  if (must(cudaSetDevice(0)) + must(cudaMalloc(&memory, 4096)) != 0 || find == nullptr ||
      ask == nullptr || find("0000:01:00.0", &device) != 0) {
    return 2;
  }
  unsigned count = 1;
  ProcessInfo processes[8] = {};
  constexpr int kInsufficientSize = 7;
  const bool refused = ask(device, &count, &processes[0]) == kInsufficientSize && count == 2;
  return refused && ask(device, &count, &processes[0]) == 0 && count == 2 &&
                 processes[0].pid == static_cast<unsigned>(getpid())
             ? 0
             : 1;
}

TEST(GpuIdentities, OfProcessesAreWhatTheJobIsTold) {
  auto environment = simgpu();
  environment["SIMGPU_NVML"] = "foreign@0=3";
  const std::string told = facts_of("asks_who_is_there", environment)["gpu-0-processes"];
  unsigned long long time = 0;
  unsigned long long bytes = 0;
  unsigned pid = 0;
  int end = 0;
  EXPECT_EQ(sscanf(told.c_str(), "%llu %u:%llu 1:3145728%n", &time, &pid, &bytes, &end), 3) << told;
  EXPECT_EQ(static_cast<size_t>(end), told.size());
  EXPECT_GT(time, 1'700'000'000'000'000'000ULL);
  EXPECT_GT(bytes, 0ULL);
}

}  // namespace
