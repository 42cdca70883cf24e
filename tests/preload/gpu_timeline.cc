// TRAINTRACE_GPU_TIMELINE=cupti in real processes: what CUPTI records, and that we are in nobody's
// way.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

namespace fs = std::filesystem;
using preload::Folder;
using preload::Outcome;
using preload::Program;
using preload::RawRecord;
using preload::RawTrace;
using traintrace::format::kMoment;

#define MUST(call)     \
  do {                 \
    if ((call) != 0) { \
      return 1;        \
    }                  \
  } while (false)

constexpr int kKernels = 20;

int launch_kernels(int count) {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  MUST(cudaFree(nullptr));
  MUST(cuModuleLoadData(&module, "no image of any kind, but long enough to look at its start"));
  MUST(cuModuleGetFunction(&kernel, module, "work"));
  for (int i = 0; i < count; ++i) {
    MUST(cuLaunchKernel(kernel, 3, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  }
  usleep(150'000);  // the next look at what is complete is due
  MUST(cudaDeviceSynchronize());
  return 0;
}

using ProfilerCall = int();
ProfilerCall* profiler_function(const char* name) {
  void* const library = dlopen(PRELOAD_FIXTURES "/liblate_profiler.so", RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<ProfilerCall*>(dlsym(library, name));
}

Program timed(const std::string& role, const Folder& folder) {
  Program program = preload::self(role);
  program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces"},
                         {"TRAINTRACE_GPU_TIMELINE", "cupti"},
                         {"SIMGPU_KERNEL_US", "work=1000"}};
  return program;
}

std::vector<RawTrace> traces_in(const Folder& folder) {
  std::vector<RawTrace> traces;
  for (const auto& entry : fs::directory_iterator(folder.path() + "/traces")) {
    if (entry.path().extension() == ".trace") {
      traces.push_back(preload::read_raw(entry.path()));
    }
  }
  return traces;
}

size_t kernels_in(const RawTrace& trace) {
  return trace.of("gpuKernel", kMoment).size();
}

ROLE(launches) {
  return launch_kernels(kKernels);
}

TEST(GpuTimeline, RecordsWhatRanAndWhichCallItCameFrom) {
  const Folder folder;
  const Outcome outcome = preload::run(timed("launches", folder));
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  const RawTrace trace = traces_in(folder).at(0);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(trace.facts.at("gpu-timeline"), "cupti");
  EXPECT_EQ(trace.stats.count("gpu-records-lost"), 0u);
  EXPECT_GE(trace.of("gpuClock", kMoment).size(), 1u);
  std::set<uint64_t> launched;
  for (const RawRecord& record : trace.of("gpuLaunch", kMoment)) {
    launched.insert(trace.value(record, "correlation"));
  }
  const std::vector<RawRecord> kernels = trace.of("gpuKernel", kMoment);
  ASSERT_EQ(kernels.size(), size_t{kKernels});
  for (size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_EQ(trace.value(kernels[i], "duration"), 1'000'000u);
    EXPECT_TRUE(launched.count(trace.value(kernels[i], "correlation")));
    EXPECT_EQ(kernels[i].device, 0);
  }
}

ROLE(launches_in_ranges) {
  MUST(cudaFree(nullptr));
  nvtxRangePushA("step");
  nvtxRangePushA("forward");
  MUST(launch_kernels(3));
  nvtxRangePop();
  MUST(launch_kernels(1));
  nvtxRangePop();
  return launch_kernels(1);
}

TEST(GpuTimeline, IsReportedByTheRangesThatLaunchedTheWork) {
  const Folder folder;
  Program program = timed("launches_in_ranges", folder);
  program.environment["NVTX_INJECTION64_PATH"] = PRELOAD_BUILD "/lib/libtraintrace.so";
  const Outcome outcome = preload::run(program);
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  Program report;
  report.command = {TRAINTRACE_BINARY, "report",       folder.path() + "/traces",
                    "--by=range",      "--format=csv", "--columns=range,count,launch_count,gpu_ns"};
  report.traced = false;
  const Outcome reported = preload::run(report);
  EXPECT_EQ(reported.output,
            "range,count,launch_count,gpu_ns\n"
            "step,1,4,4000000\n"
            "forward,1,3,3000000\n")
      << reported.errors;
}

ROLE(launches_again) {
  return launch_kernels(1) + launch_kernels(1);
}

TEST(GpuTimeline, SaysWhatCuptiTookForItself) {
  const Folder folder;
  Program program = timed("launches_again", folder);
  program.environment["SIMGPU_CUPTI_FLUSH_US"] = "5000";
  const Outcome outcome = preload::run(program);
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  const RawTrace trace = traces_in(folder).at(0);
  const std::vector<RawRecord> overheads = trace.of("gpuOverhead", kMoment);
  ASSERT_GE(overheads.size(), 1u);
  EXPECT_GE(trace.value(overheads[0], "duration"), 5'000'000u);
  EXPECT_EQ(trace.value(overheads[0], "mode"), uint64_t{1} << 16);
}

TEST(GpuTimeline, SaysWhichGpusThereAre) {
  const Folder folder;
  Program program = timed("launches", folder);
  program.environment["SIMGPU_DEVICES"] = "2";
  program.environment["SIMGPU_DEVICE_NAME"] = "NVIDIA H100 80GB HBM3";
  ASSERT_TRUE(preload::run(program).exited_with(0));
  const RawTrace trace = traces_in(folder).at(0);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(trace.facts.at("gpu-0"), "9.0 NVIDIA H100 80GB HBM3");
  EXPECT_EQ(trace.facts.at("gpu-1"), "9.0 NVIDIA H100 80GB HBM3");
  EXPECT_EQ(trace.facts.count("gpu-2"), 0u);
}

TEST(GpuTimeline, NothingOfItUnlessAskedFor) {
  const Folder folder;
  Program program = timed("launches", folder);
  program.environment.erase("TRAINTRACE_GPU_TIMELINE");
  ASSERT_TRUE(preload::run(program).exited_with(0));
  const RawTrace trace = traces_in(folder).at(0);
  EXPECT_EQ(kernels_in(trace), 0u);
  EXPECT_EQ(trace.of("gpuLaunch", kMoment).size(), 0u);
  EXPECT_EQ(trace.facts.count("gpu-timeline"), 0u);
  EXPECT_EQ(trace.facts.count("gpu-0"), 0u);
}

TEST(GpuTimeline, AJobWithoutCuptiRunsAsEver) {
  const Folder folder;
  const Folder libraries;
  for (const char* const name : {"libcuda.so.1", "libcudart.so.13", "libnccl.so.2"}) {
    fs::create_symlink(fs::path(PRELOAD_C10).parent_path() / name,
                       fs::path(libraries.path()) / name);
  }
  Program program = timed("launches", folder);
  program.environment["LD_LIBRARY_PATH"] = libraries.path();
  const Outcome outcome = preload::run(program);
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  EXPECT_EQ(outcome.errors.rfind(
                "traintrace: TRAINTRACE_GPU_TIMELINE=cupti: no GPU timeline is recorded: ", 0),
            0u)
      << outcome.errors;
  EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1);
  const RawTrace trace = traces_in(folder).at(0);
  // A real one that the loader finds does not go with this driver.
  EXPECT_EQ(trace.facts.at("gpu-timeline").rfind("none: ", 0), 0u);
  EXPECT_EQ(trace.entered("cuLaunchKernel"), uint64_t{kKernels});
}

ROLE(profiled) {
  auto* const comes = profiler_function("profiler_comes");
  auto* const ends = profiler_function("profiler_ends");
  MUST(comes == nullptr || ends == nullptr);
  MUST(comes());
  MUST(launch_kernels(kKernels));
  return ends() > 0 ? 0 : 2;
}

TEST(GpuTimeline, AProfilerThatWasThereKeepsItsPlace) {
  const Folder folder;
  const Outcome outcome = preload::run(timed("profiled", folder));
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors << WEXITSTATUS(outcome.status);
  const RawTrace trace = traces_in(folder).at(0);
  EXPECT_EQ(trace.facts.at("gpu-timeline"), "none: another profiler has CUPTI");
  EXPECT_EQ(kernels_in(trace), 0u);
}

// Some of our records are still in a buffer then.
ROLE(profiled_later) {
  MUST(launch_kernels(kKernels));
  MUST(launch_kernels(3));
  auto* const comes = profiler_function("profiler_comes");
  auto* const ends = profiler_function("profiler_ends");
  MUST(comes == nullptr || ends == nullptr);
  MUST(comes());
  MUST(launch_kernels(kKernels));
  return ends() > 0 ? 0 : 2;
}

TEST(GpuTimeline, AProfilerThatComesLaterGetsIt) {
  const Folder folder;
  const Outcome outcome = preload::run(timed("profiled_later", folder));
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors << WEXITSTATUS(outcome.status);
  const RawTrace trace = traces_in(folder).at(0);
  EXPECT_EQ(trace.facts.at("gpu-timeline"), "cupti");
  EXPECT_EQ(trace.facts.at("gpu-timeline-ended"), "another profiler came");
  EXPECT_EQ(kernels_in(trace), size_t{kKernels + 3});
}

ROLE(forks) {
  const pid_t before = fork();  // as a launcher does
  if (before == 0) {
    _exit(launch_kernels(kKernels));
  }
  int status = 0;
  waitpid(before, &status, 0);
  MUST(status);
  MUST(launch_kernels(kKernels));
  const pid_t after = fork();  // as a loader of data does: CUDA is of no use to it
  if (after == 0) {
    void* memory = nullptr;
    _exit(cudaMalloc(&memory, 16) == cudaSuccess ? 1 : 0);
  }
  waitpid(after, &status, 0);
  MUST(status);
  return launch_kernels(kKernels);
}

TEST(GpuTimeline, AForkedChildHasOneOfItsOwnOrNone) {
  const Folder folder;
  const Outcome outcome = preload::run(timed("forks", folder));
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  std::vector<size_t> kernels;
  for (const RawTrace& trace : traces_in(folder)) {
    kernels.push_back(kernels_in(trace));
    EXPECT_EQ(trace.problems, std::vector<std::string>());
  }
  std::sort(kernels.begin(), kernels.end());
  ASSERT_GE(kernels.size(), 2u);
  EXPECT_EQ(kernels[kernels.size() - 2], size_t{kKernels});
  EXPECT_EQ(kernels[kernels.size() - 1], 2 * size_t{kKernels});
}

ROLE(is_killed) {
  MUST(launch_kernels(kKernels));
  return raise(SIGKILL);
}

TEST(GpuTimeline, SurvivesSigkill) {
  const Folder folder;
  const Outcome outcome = preload::run(timed("is_killed", folder));
  ASSERT_TRUE(outcome.killed_by(SIGKILL));
  const RawTrace trace = traces_in(folder).at(0);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(kernels_in(trace), size_t{kKernels});
}

}  // namespace
