// What GPUs a process sees, as facts that NVML's devices can be joined by.
#include <cuda.h>
#include <cuda_runtime_api.h>
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

}  // namespace
