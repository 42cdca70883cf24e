// test: link=none timeout=240
// Calls that go past every preload cannot be recorded, but that there are such is found and said.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawTrace;

const std::string kThroughPlt = std::string(PRELOAD_FIXTURES) + "/libthrough_plt.so";

bool allocates(void* library) {
  const auto call = reinterpret_cast<cudaError_t (*)(size_t)>(dlsym(library, "allocate_and_free"));
  return call && call(1000) == cudaSuccess;
}

// The tracer's own thread looks each second, not when it is asked to.
bool is_said(const std::string& folder, const char* what) {
  for (int i = 0; i < 1000; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (preload::read_whole(entry.path()).find(what) != std::string::npos) {
        return true;
      }
    }
    usleep(100'000);
  }
  return false;
}

RawTrace trace_of(const std::string& role) {
  const Folder folder;
  preload::Program program = preload::self(role, {folder.path()});
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"TRAINTRACE_RING_MB", "1"}};
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.output << outcome.errors;
  const auto traces = folder.traces();
  RawTrace trace = traces.size() == 1 ? preload::read_raw(traces[0]) : RawTrace{};
  EXPECT_EQ(traces.size(), 1u);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  return trace;
}

ROLE(deepbind) {
  void* const usual = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
  const auto set_device =
      usual ? reinterpret_cast<cudaError_t (*)(int)>(dlsym(usual, "cudaSetDevice")) : nullptr;
  void* const deep = dlopen(kThroughPlt.c_str(), RTLD_NOW | RTLD_DEEPBIND);
  return set_device && set_device(0) == cudaSuccess && deep && allocates(deep) &&
                 is_said(arguments.at(0), "calls-past.1")
             ? 0
             : 1;
}

TEST(Past, ALibraryThatIsBoundPastThePreload) {
  RawTrace trace = trace_of("deepbind");
  EXPECT_EQ(trace.entered("cudaMalloc"), 0u);
  EXPECT_EQ(trace.stats["calls-past"], 1u);
  EXPECT_EQ(trace.facts["calls-past.1"],
            kThroughPlt + ": bound to CUDA or NCCL past the tracer (RTLD_DEEPBIND)");
}

ROLE(own_namespace) {
  void* const usual = dlopen(kThroughPlt.c_str(), RTLD_NOW);
  void* const other = dlmopen(LM_ID_NEWLM, kThroughPlt.c_str(), RTLD_NOW);
  return usual && allocates(usual) && other && is_said(arguments.at(0), "calls-past.1") ? 0 : 1;
}

TEST(Past, ACopyInANamespaceOfItsOwn) {
  RawTrace trace = trace_of("own_namespace");
  EXPECT_EQ(trace.entered("cudaMalloc"), 1u);
  EXPECT_GE(trace.stats["calls-past"], 1u);
  const std::string said = trace.facts["calls-past.1"];
  EXPECT_NE(said.find("libcudart.so.13"), std::string::npos) << said;
  EXPECT_NE(said.find("dlmopen"), std::string::npos) << said;
}

// Who is seen is not said to be past us: bound at once or when first called, before and after us.
ROLE(usual) {
  void* const now = dlopen(kThroughPlt.c_str(), RTLD_NOW);
  void* const lazily = dlopen((std::string(PRELOAD_FIXTURES) + "/libearly.so").c_str(), RTLD_LAZY);
  const bool all = now && allocates(now) && lazily;
  usleep(2'500'000);
  return all ? 0 : 1;
}

TEST(Past, NobodyWhoIsSeen) {
  RawTrace trace = trace_of("usual");
  EXPECT_EQ(trace.stats.count("calls-past"), 0u);
  EXPECT_EQ(trace.facts.count("calls-past.1"), 0u);
}

}  // namespace
