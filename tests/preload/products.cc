// test: link=none
// Products of matrices: each call is recorded once, with what it multiplies; and a program without
// cuBLAS finds none.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

#include "format/trace_format.h"
#include "interpose/calls/cublas_api.h"
#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

namespace format = traintrace::format;
namespace cublas = traintrace::cublas;
using preload::Folder;
using preload::Outcome;
using preload::RawTrace;

const std::map<std::string, std::string> kTimeline = {{"TRAINTRACE_GPU_TIMELINE", "cupti"}};

struct Recorded {
  Outcome outcome;
  RawTrace trace;
};

Recorded run_role(const std::string& role, std::map<std::string, std::string> environment = {}) {
  const Folder folder;
  preload::Program program = preload::self(role);
  program.environment = std::move(environment);
  program.environment["TRAINTRACE_DIR"] = folder.path();
  program.environment["TRAINTRACE_RING_MB"] = "1";
  Recorded run;
  run.outcome = preload::run(program);
  EXPECT_TRUE(run.outcome.exited_with(0)) << run.outcome.output << run.outcome.errors;
  EXPECT_EQ(run.outcome.errors, "");
  for (const std::string& trace : folder.traces()) {
    run.trace = preload::read_raw(trace);
  }
  EXPECT_EQ(run.trace.problems, std::vector<std::string>());
  return run;
}

void* open_fake() {
  return dlopen(PRELOAD_FIXTURES "/libfake_cublas.so", RTLD_NOW | RTLD_LOCAL);
}

template <class Function>
Function find(void* library, const char* name, Function /*type*/) {
  return reinterpret_cast<Function>(dlsym(library, name));
}
#define FIND(library, name, type) find(library, name, &cublas::type)

int count_of(void* library, const char* counter) {
  return reinterpret_cast<int (*)()>(dlsym(library, counter))();
}

// More than 32 bits hold, where there is room.
constexpr int64_t kLarge = 5'000'000'000;

// Each with another m, n and k; names as cuBLAS has them, one behind the other.
template <class Size>
int multiply_with(void* library, const std::string& suffix, Size m, Size n, Size k) {
  constexpr int kHalf = 2;
  constexpr int kSingle = 0;
  constexpr int kBfloat = 14;
  constexpr Size kBatch = 6;
  const auto name = [&](const char* plain) { return plain + suffix; };
  int failures = 0;
  const auto count = [&](cublas::Status status) {
    failures += status == cublas::Status::kSuccess ? 0 : 1;
  };
  count(FIND(library, name("cublasGemmEx").c_str(), gemm_ex<Size>)(
      nullptr, 0, 0, m, n, k, nullptr, nullptr, kHalf, 71, nullptr, kHalf, 72, nullptr, nullptr,
      kSingle, 73, 74, 75));
  count(FIND(library, name("cublasGemmBatchedEx").c_str(), gemm_batched_ex<Size>)(
      nullptr, 0, 0, m, n, k, nullptr, nullptr, kBfloat, 71, nullptr, kBfloat, 72, nullptr, nullptr,
      kSingle, 73, kBatch, 74, 75));
  count(FIND(library, name("cublasGemmStridedBatchedEx").c_str(), gemm_strided_ex<Size>)(
      nullptr, 0, 0, m, n, k, nullptr, nullptr, kBfloat, 71, 76, nullptr, kHalf, 72, 77, nullptr,
      nullptr, kSingle, 73, 78, kBatch, 74, 75));
  count(FIND(library, name("cublasSgemmEx").c_str(), gemm_of_types<Size>)(
      nullptr, 0, 0, m, n, k, nullptr, nullptr, kHalf, 71, nullptr, kHalf, 72, nullptr, nullptr,
      kSingle, 73));
  for (const char letter : {'H', 'S', 'D'}) {
    const auto named = [&](const char* kind) {
      std::string full = "cublas";
      return full.append(1, letter).append("gemm").append(kind).append(suffix);
    };
    count(FIND(library, named(letter == 'H' ? "" : "_v2").c_str(), gemm<Size>)(
        nullptr, 0, 0, m, n, k, nullptr, nullptr, 71, nullptr, 72, nullptr, nullptr, 73));
    count(FIND(library, named("Batched").c_str(), gemm_batched<Size>)(
        nullptr, 0, 0, m, n, k, nullptr, nullptr, 71, nullptr, 72, nullptr, nullptr, 73, kBatch));
    count(FIND(library, named("StridedBatched").c_str(), gemm_strided<Size>)(
        nullptr, 0, 0, m, n, k, nullptr, nullptr, 71, 76, nullptr, 72, 77, nullptr, nullptr, 73, 78,
        kBatch));
  }
  return failures;
}

// The GPU's timeline begins with it, and with that the recording of products.
void begin_timeline() {
  void* const runtime = dlopen("libcudart.so.13", RTLD_NOW);
  void* memory = nullptr;
  reinterpret_cast<int (*)(void**, size_t)>(dlsym(runtime, "cudaMalloc"))(&memory, 64);
}

ROLE(each_row) {
  begin_timeline();
  void* const library = open_fake();
  const int failures = multiply_with<int>(library, "", 101, 102, 103) +
                       multiply_with<int64_t>(library, "_64", kLarge, kLarge + 1, kLarge + 2);
  std::printf("%d", count_of(library, "products_asked"));
  return failures;
}

// The row's values, in the order of its fields; of types the words that cuBLAS takes.
std::vector<uint64_t> expected_of(const std::string& name, bool is_64) {
  const uint64_t first = is_64 ? kLarge : 101;
  std::vector<uint64_t> values = {first, first + 1, first + 2};
  if (name.find("Batched") != name.npos) {
    values.push_back(6);
  }
  if (name.starts_with("cublasGemm")) {
    values.push_back(name.find("Batched") != name.npos ? 14 : 2);
    values.push_back(name.find("BatchedEx") != name.npos && name.find("Strided") == name.npos ? 14
                                                                                              : 2);
  } else if (name.starts_with("cublasSgemmEx")) {
    values.insert(values.end(), {2, 2});
  } else {
    values.push_back(name[6] == 'H' ? 2 : name[6] == 'S' ? 0 : 1);
  }
  return values;
}

TEST(Products, EachRowSaysWhatItMultiplies) {
  const Recorded run = run_role("each_row", kTimeline);
  if (run.trace.facts.at("gpu-timeline") != "cupti") {
    GTEST_SKIP() << "built without headers of CUPTI";
  }
  std::set<std::string> rows;
  for (const auto& [id, call] : run.trace.calls) {
    if (call.kind == "product" && call.name != "cublasLtMatmul") {
      rows.insert(call.name);
    }
  }
  EXPECT_EQ(rows.size(), 26u);
  EXPECT_EQ(run.outcome.output, std::to_string(rows.size()));
  for (const std::string& name : rows) {
    const auto entered = run.trace.of(name, format::kEnter);
    ASSERT_EQ(entered.size(), 1u) << name;
    EXPECT_EQ(run.trace.left(name), 1u) << name;
    EXPECT_EQ(entered[0].values, expected_of(name, name.ends_with("_64"))) << name;
  }
  // What they go on to is a part of them.
  EXPECT_EQ(run.trace.entered("cublasLtMatmul"), 0u);
}

TEST(Products, NoneIsRecordedWithoutTheTimelineOfTheGpu) {
  const Recorded run = run_role("each_row");
  EXPECT_EQ(run.outcome.output, "26");
  EXPECT_EQ(run.trace.records.size(), 2u);  // cudaMalloc
}

// As the fixture has it.
struct Layout {
  uint32_t type;
  uint64_t rows, columns;
  int32_t batch;
};

int multiply_by_lt(void* library, Layout* a, Layout* b, Layout* d) {
  return static_cast<int>(FIND(library, "cublasLtMatmul", matmul)(
      nullptr, nullptr, nullptr, nullptr, a, nullptr, b, nullptr, nullptr, d, nullptr, d, nullptr,
      nullptr, 0, nullptr));
}

Layout g_plain = {14, 3000, 700, 5};
Layout g_transposed = {14, 700, 3000, 5};
Layout g_other = {28, 700, 40, 5};
Layout g_result = {0, 3000, 40, 5};

ROLE(layouts) {
  begin_timeline();
  void* const library = open_fake();
  int failures = multiply_by_lt(library, &g_plain, &g_other, &g_result);
  failures += multiply_by_lt(library, &g_transposed, &g_other, &g_result);
  failures += multiply_by_lt(library, nullptr, &g_other, &g_result);
  const int asked = count_of(library, "questions_asked");
  // From now on each question could be a line in the job's output.
  FIND(library, "cublasLtLoggerSetLevel", set_logger)(5);
  failures += multiply_by_lt(library, &g_plain, &g_other, &g_result);
  std::printf("%d %d", asked, count_of(library, "questions_asked") - asked);
  return failures;
}

constexpr uint64_t kUnknown = ~uint64_t{0};

TEST(Products, LayoutsOfCublasLtAreAskedFor) {
  const Recorded run = run_role("layouts", kTimeline);
  if (run.trace.facts.at("gpu-timeline") != "cupti") {
    GTEST_SKIP() << "built without headers of CUPTI";
  }
  const auto entered = run.trace.of("cublasLtMatmul", format::kEnter);
  ASSERT_EQ(entered.size(), 4u);
  const std::vector<uint64_t> known = {3000, 40, 700, 5, 14, 28};
  const std::vector<uint64_t> unknown = {0, 0, 0, 0, kUnknown, kUnknown};
  EXPECT_EQ(entered[0].values, known);
  EXPECT_EQ(entered[1].values, known);
  EXPECT_EQ(entered[2].values, unknown);
  EXPECT_EQ(entered[3].values, unknown);
  EXPECT_EQ(run.outcome.output, "14 0");
}

TEST(Products, NothingIsAskedWhereCublasLtLogsItsCalls) {
  auto logs = kTimeline;
  logs["CUBLASLT_LOG_LEVEL"] = "5";
  const Recorded run = run_role("layouts", logs);
  if (run.trace.facts.at("gpu-timeline") != "cupti") {
    GTEST_SKIP() << "built without headers of CUPTI";
  }
  const auto entered = run.trace.of("cublasLtMatmul", format::kEnter);
  ASSERT_EQ(entered.size(), 4u);
  EXPECT_EQ(entered[0].values, (std::vector<uint64_t>{0, 0, 0, 0, kUnknown, kUnknown}));
  EXPECT_EQ(run.outcome.output, "0 0");
}

TEST(Products, NothingIsAskedWhereNobodyNeedsIt) {
  EXPECT_EQ(run_role("layouts").outcome.output, "0 0");
}

bool is_found(void* handle) {
  dlerror();
  return dlsym(handle, "cublasGemmEx") != nullptr || dlerror() == nullptr ||
         dlsym(handle, "cublasLtMatmul") != nullptr ||
         dlsym(handle, "cublasLtLoggerSetLevel") != nullptr;
}

ROLE(without) {
  void* const runtime = dlopen("libcudart.so.13", RTLD_NOW);
  void* memory = nullptr;
  const auto allocate = reinterpret_cast<int (*)(void**, size_t)>(dlsym(runtime, "cudaMalloc"));
  const bool worked = allocate != nullptr && allocate(&memory, 64) == 0;
  return worked && !is_found(RTLD_DEFAULT) && !is_found(RTLD_NEXT) &&
                 !is_found(dlopen(nullptr, RTLD_NOW)) && !is_found(runtime) &&
                 dlopen("libcublas.so.13", RTLD_NOW | RTLD_NOLOAD) == nullptr &&
                 dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD) == nullptr
             ? 0
             : 1;
}

TEST(Products, AProgramWithoutCublasFindsNone) {
  const Recorded run = run_role("without");
  EXPECT_EQ(run.trace.left("cudaMalloc"), 1u);
  EXPECT_EQ(run.trace.records.size(), 2u);
  EXPECT_EQ(run.trace.stats, (std::map<std::string, uint64_t>()));
}

// A library with versions of its symbols, and a runtime of its own inside.
constexpr int kFailed = 1;  // CUBLAS_STATUS_NOT_INITIALIZED

ROLE(multiplies) {
  begin_timeline();
  void* const library = dlopen(SIMGPU12_DIR "/libcublas.so.12", RTLD_NOW | RTLD_LOCAL);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* handle = nullptr;
  if (library == nullptr ||
      reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"))(&handle) != 0) {
    return 1;
  }
  float a[4] = {1, 2, 3, 4};  // column by column
  float b[4] = {5, 6, 7, 8};
  float c[4] = {};
  const float one = 1;
  const float zero = 0;
  const auto multiply = FIND(library, "cublasSgemm_v2", gemm<int>);
  const auto refused = multiply(nullptr, 0, 0, 2, 2, 2, &one, a, 2, b, 2, &zero, c, 2);
  const auto done = multiply(handle, 0, 0, 2, 2, 2, &one, a, 2, b, 2, &zero, c, 2);
  reinterpret_cast<int (*)()>(dlsym(driver, "cuCtxSynchronize"))();
  const bool right = c[0] == 23 && c[1] == 34 && c[2] == 31 && c[3] == 46;
  return static_cast<int>(refused) == kFailed && done == cublas::Status::kSuccess && right ? 0 : 2;
}

TEST(Products, WhatIsLaunchedLiesWithin) {
  if (!std::filesystem::exists(SIMGPU12_DIR "/libcublas.so.12")) {
    GTEST_SKIP() << "built without headers of cuBLAS";
  }
  const RawTrace trace = run_role("multiplies", kTimeline).trace;
  if (trace.facts.at("gpu-timeline") != "cupti") {
    GTEST_SKIP() << "built without headers of CUPTI";
  }
  const auto entered = trace.of("cublasSgemm_v2", format::kEnter);
  const auto left = trace.of("cublasSgemm_v2", format::kLeave);
  const auto launched = trace.of("cuLaunchKernel", format::kEnter);
  ASSERT_EQ(entered.size(), 2u);
  ASSERT_EQ(left.size(), 2u);
  ASSERT_EQ(launched.size(), 1u);
  EXPECT_EQ(left[0].result(), kFailed);
  EXPECT_EQ(left[1].result(), 0);
  EXPECT_GT(launched[0].ticks, entered[1].ticks);
  EXPECT_LT(launched[0].ticks, left[1].ticks);
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>()));
}

}  // namespace
