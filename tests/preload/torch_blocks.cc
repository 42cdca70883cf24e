// The reports of PyTorch's caching allocator: all of them arrive, and what is live is in the
// tables.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"
#include "tests/simgpu/c10/c10_cuda.h"
#include "tests/simgpu/c10/profiler.h"

// Nobody has it in this program: libc10 is loaded by dlopen, if at all.
namespace c10 {
[[gnu::weak]] void reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, Device);
}

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawRecord;
using preload::RawTrace;
namespace format = traintrace::format;

// As Python loads PyTorch's libraries: nobody else sees their names.
struct Allocator {
  void* const library = dlopen(PRELOAD_C10 "/libc10_cuda.so", RTLD_NOW | RTLD_LOCAL);
  template <class Function>
  Function* find(const char* name) const {
    void* const found = library != nullptr ? dlsym(library, name) : nullptr;
    if (found == nullptr) {
      std::fprintf(stderr, "%s: %s\n", name, dlerror());
      std::exit(9);
    }
    return reinterpret_cast<Function*>(found);
  }
  decltype(&c10sim_malloc) take = find<decltype(c10sim_malloc)>("c10sim_malloc");
  decltype(&c10sim_free) give = find<decltype(c10sim_free)>("c10sim_free");
  decltype(&c10sim_record_stream) record =
      find<decltype(c10sim_record_stream)>("c10sim_record_stream");
  decltype(&c10sim_empty_cache) empty = find<decltype(c10sim_empty_cache)>("c10sim_empty_cache");
  decltype(&c10sim_stats) stats = find<decltype(c10sim_stats)>("c10sim_stats");
  decltype(&c10sim_reports) reports = find<decltype(c10sim_reports)>("c10sim_reports");
};

void print_stats(const Allocator& allocator) {
  C10Stats stats = {};
  allocator.stats(0, &stats);
  std::printf("allocated %lu\nreserved %lu\npeak %lu\nallocations %lu\nfrees %lu\nreports %lu\n",
              stats.allocated, stats.reserved, stats.peak_allocated, stats.allocations, stats.frees,
              allocator.reports());
}

size_t any_size(std::mt19937& random) {
  const size_t magnitude = random() % 15;
  return 1 + (random() % 1024 << magnitude);
}

// Blocks come and go, some used by a second stream.  Prints what is left.
ROLE(history) {
  const int steps = std::stoi(arguments.at(0));
  const Allocator allocator;
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams) {
    if (cudaStreamCreate(&stream) != cudaSuccess) {
      return 1;
    }
  }
  std::mt19937 random(7);
  std::vector<void*> live;
  for (int i = 0; i < steps; ++i) {
    if (live.size() < 200 && random() % 5 < 3) {
      if (void* const memory = allocator.take(any_size(random), streams[random() % 2])) {
        live.push_back(memory);
      }
    } else if (!live.empty()) {
      const size_t which = random() % live.size();
      if (random() % 4 == 0) {
        allocator.record(live[which], streams[random() % 2]);
      }
      allocator.give(live[which]);
      live[which] = live.back();
      live.pop_back();
    }
    if (i % 1000 == 999) {
      allocator.empty();
    }
  }
  print_stats(allocator);
  for (void* const memory : live) {
    std::printf("live %p\n", memory);
  }
  return 0;
}

std::map<std::string, uint64_t> numbers_of(const std::string& output, std::vector<uint64_t>& live) {
  std::map<std::string, uint64_t> numbers;
  std::istringstream lines(output);
  for (std::string key, value; lines >> key >> value;) {
    const uint64_t number = std::stoull(value, nullptr, 0);
    if (key == "live") {
      live.push_back(number);
    } else {
      numbers[key] = number;
    }
  }
  std::sort(live.begin(), live.end());
  return numbers;
}

RawTrace traced(const Folder& folder, const std::string& role, const std::string& argument,
                std::map<std::string, std::string> environment, std::string& output) {
  preload::Program program = preload::self(role, {argument});
  program.environment = std::move(environment);
  program.environment["TRAINTRACE_DIR"] = folder.path();
  program.environment["TRAINTRACE_RING_MB"] = "16";
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  output = outcome.output;
  const auto traces = folder.traces();
  return traces.empty() ? RawTrace{} : preload::read_raw(traces[0]);
}

std::vector<uint64_t> addresses(const std::vector<format::TensorBlock>& blocks) {
  std::vector<uint64_t> found;
  found.reserve(blocks.size());
  for (const format::TensorBlock& block : blocks) {
    found.push_back(block.address);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Each report's totals follow from the one before.
void check_reports(const RawTrace& trace, const std::vector<RawRecord>& reports) {
  int64_t sum = 0;
  uint64_t bad = 0;
  for (const RawRecord& report : reports) {
    sum += static_cast<int64_t>(trace.value(report, "change"));
    bad += static_cast<uint64_t>(sum) != trace.value(report, "allocated") ? 1 : 0;
    bad += trace.value(report, "reserved") < trace.value(report, "allocated") ? 1 : 0;
    const bool allocates = static_cast<int64_t>(trace.value(report, "change")) > 0;
    bad += (report.stack != 0) != allocates || report.device != 0 ? 1 : 0;
  }
  EXPECT_EQ(bad, 0u);
}

void check_history(const std::map<std::string, std::string>& environment) {
  const Folder folder;
  std::string output;
  const RawTrace trace = traced(folder, "history", "6000", environment, output);
  std::vector<uint64_t> live;
  auto numbers = numbers_of(output, live);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  const auto reports = trace.of("reportMemoryUsageToProfiler", format::kMoment);
  EXPECT_EQ(reports.size(), numbers["allocations"] + numbers["frees"]);
  EXPECT_EQ(numbers["reports"], reports.size()) << "libc10 gets each of them";
  EXPECT_GT(live.size(), 10u);
  EXPECT_EQ(addresses(trace.tensor_blocks), live);
  uint64_t bytes = 0;
  for (const format::TensorBlock& block : trace.tensor_blocks) {
    bytes += block.bytes;
  }
  EXPECT_EQ(bytes, numbers["allocated"]);
  ASSERT_EQ(trace.tensor_devices.size(), 1u);
  const format::TensorDevice& device = trace.tensor_devices[0];
  EXPECT_EQ(device.allocated, numbers["allocated"]);
  EXPECT_EQ(device.peak_allocated, numbers["peak"]);
  EXPECT_EQ(device.allocations, numbers["allocations"]);
  EXPECT_EQ(device.frees, numbers["frees"]);
  EXPECT_EQ(static_cast<uint64_t>(device.change), numbers["allocated"]);
  check_reports(trace, reports);
}

TEST(TorchBlocks, AreThoseOfTheAllocator) {
  check_history({});
}

TEST(TorchBlocks, AreThoseOfTheAllocatorWithExpandableSegments) {
  check_history({{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}});
}

TEST(TorchBlocks, AreKnownFromOlderVersionsToo) {
  check_history({{"SIMGPU_C10", "1.10"}});
}

TEST(TorchBlocks, WithoutAddressesAreCounted) {
  for (const char* const version : {"1.6", "1.7"}) {
    const Folder folder;
    std::string output;
    const RawTrace trace = traced(folder, "history", "500", {{"SIMGPU_C10", version}}, output);
    std::vector<uint64_t> live;
    auto numbers = numbers_of(output, live);
    EXPECT_EQ(trace.problems, std::vector<std::string>());
    const auto reports = trace.of("reportMemoryUsageToProfiler", format::kMoment);
    EXPECT_EQ(reports.size(), numbers["allocations"] + numbers["frees"]);
    EXPECT_EQ(numbers["reports"], reports.size());
    EXPECT_TRUE(trace.tensor_blocks.empty());
    EXPECT_EQ(trace.stats.at("tensor-without-address"), reports.size());
  }
}

TEST(TorchBlocks, TheSettingsOfTheAllocatorAreFacts) {
  const Folder folder;
  std::string output;
  const RawTrace trace =
      traced(folder, "history", "10",
             {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:64"},
              {"PYTORCH_NO_CUDA_MEMORY_CACHING", "0"}},
             output);
  EXPECT_EQ(trace.facts.at("env.PYTORCH_CUDA_ALLOC_CONF"),
            "expandable_segments:True,max_split_size_mb:64");
  EXPECT_EQ(trace.facts.at("env.PYTORCH_NO_CUDA_MEMORY_CACHING"), "0");
}

// Takes 64 MiB at a time until there is no more, then a call of CUDA itself.
ROLE(exhausted) {
  const Allocator allocator;
  int taken = 0;
  while (allocator.take(size_t{64} << 20, nullptr) != nullptr) {
    ++taken;
  }
  print_stats(allocator);
  std::printf("taken %d\n", taken);
  void* memory = nullptr;
  return cudaMalloc(&memory, size_t{1} << 40) == cudaErrorMemoryAllocation ? 0 : 1;
}

TEST(TorchBlocks, WhatWasLiveWhenMemoryRanOutIsKept) {
  const Folder folder;
  std::string output;
  const RawTrace trace = traced(folder, "exhausted", "", {{"SIMGPU_MEMORY", "512M"}}, output);
  std::vector<uint64_t> none;
  auto numbers = numbers_of(output, none);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  ASSERT_EQ(trace.of("reportOutOfMemoryToProfiler", format::kMoment).size(), 1u);
  ASSERT_EQ(trace.failures.size(), 4u) << "the first try, the second, the report, the last call";
  const format::OutOfMemory& report = trace.failures[0];
  EXPECT_EQ(trace.calls.at(report.call).name, "reportOutOfMemoryToProfiler");
  EXPECT_EQ(report.number, 3u);
  EXPECT_EQ(report.bytes, uint64_t{64} << 20);
  EXPECT_EQ(report.allocated, numbers["allocated"]);
  EXPECT_EQ(report.reserved, numbers["reserved"]);
  EXPECT_GT(report.total, report.free);
  EXPECT_NE(report.asked_ticks, 0u);
  EXPECT_NE(report.stack, 0u);
  EXPECT_EQ(report.result, 0);
  const format::OutOfMemory& call = trace.failures[3];
  EXPECT_EQ(trace.calls.at(call.call).name, "cudaMalloc");
  EXPECT_EQ(call.bytes, uint64_t{1} << 40);
  EXPECT_EQ(call.result, 2);
  uint64_t of_report = 0;
  uint64_t tensors = 0;
  for (const format::HeldBlock& block : trace.held_blocks) {
    of_report += block.number == report.number ? 1 : 0;
    tensors += block.number == report.number &&
                       trace.calls.at(block.call).name == "reportMemoryUsageToProfiler"
                   ? block.bytes
                   : 0;
  }
  EXPECT_EQ(of_report, 2 * numbers["taken"]) << "segments and what is in them";
  EXPECT_EQ(tensors, numbers["allocated"]);
}

using Report = void(void*, int64_t, size_t, size_t, c10::Device);

// The function is here, and there is nothing behind it.
ROLE(alone) {
  Report* const report = c10::reportMemoryUsageToProfiler;
  if (report == nullptr) {
    return 1;
  }
  report(nullptr, 512, 512, 1024, {c10::kCuda, 0});  // not armed yet
  void* memory = nullptr;
  if (cudaMalloc(&memory, 4096) != cudaSuccess) {
    return 2;
  }
  for (const int8_t type : {int8_t{0}, c10::kCuda}) {
    report(memory, 512, 512, 1024, {type, 0});
  }
  report(memory, 512, 512, 1024, {c10::kCuda, -1});
  return 0;
}

TEST(TorchBlocks, NeedNoPyTorchAndAreNotThoseOfTheCpu) {
  const Folder folder;
  std::string output;
  const RawTrace trace = traced(folder, "alone", "", {}, output);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(trace.of("reportMemoryUsageToProfiler", format::kMoment).size(), 2u);
  ASSERT_EQ(trace.tensor_devices.size(), 1u);
  EXPECT_EQ(trace.tensor_devices[0].allocations, 1u);
}

}  // namespace
