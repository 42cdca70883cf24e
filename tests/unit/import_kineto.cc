// uses: analyzer
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "analyzer/importers/kineto/decimal_ns.h"
#include "analyzer/importers/kineto/event_array.h"
#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/importers/kineto/merged_parts.h"

namespace traintrace {
namespace {

TEST(NsOfMicroseconds, IsExact) {
  EXPECT_EQ(ns_of_microseconds("1694128201545123"), 1694128201545123000);
  EXPECT_EQ(ns_of_microseconds("1694128201545123.456"), 1694128201545123456);
  EXPECT_EQ(ns_of_microseconds("0.0019"), 1);
  EXPECT_EQ(ns_of_microseconds("-2.5"), -2500);
  EXPECT_EQ(ns_of_microseconds("1.5e3"), 1'500'000);
  EXPECT_EQ(ns_of_microseconds("15e-4"), 1);
  EXPECT_EQ(ns_of_microseconds("1E+2"), 100'000);
  EXPECT_EQ(ns_of_microseconds("0"), 0);
  for (const char* text : {"", "-", ".5", "NaN", "\"1\"", "1.2.3", "1e", "1e99", "1e-99", "null",
                           "99999999999999999999", "2000000000000010"}) {
    EXPECT_FALSE(ns_of_microseconds(text)) << text;
  }
}

class ImportKineto : public ::testing::Test {
 protected:
  ImportKineto() { std::filesystem::create_directory(folder_); }
  ~ImportKineto() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text) {
    std::string path = folder_ / "trace.json";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("import_kineto." + std::to_string(getpid()));
};

constexpr char kKernel[] =
    R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 2, "args": {"correlation": 5}})";

TEST_F(ImportKineto, TakesWorkAndLeavesTheRest) {
  const KinetoTrace trace = read_kineto(file(R"json({"schemaVersion": 1,
 "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
 "baseTimeNanoseconds": 1700000000000000001, "traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "gemm \"}]{[", "pid": 1, "tid": 7, "ts": 100.001, "dur": 2.5,
   "args": {"External id": 1, "device": 1, "stream": 9, "correlation": 12, "occupancy": NaN}},
  {"ph": "X", "cat": "Kernel", "name": "ncclDevKernel_AllReduce", "pid": 1, "tid": 20, "ts": "x", "dur": 1},
  {"ph": "X", "cat": "Kernel", "name": "ncclDevKernel_AllReduce", "pid": 1, "tid": 20, "ts": 90, "dur": 1},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 1, "tid": 7, "ts": 101},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 7, "ts": 1, "dur": 999},
  {"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 1, "tid": 8, "ts": 1, "dur": 999},
  {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": "a", "tid": "b", "ts": 1, "dur": 999},
  {"ph": "i", "cat": "kernel", "name": "no work", "ts": 5},
  {"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "ts": 5}
 ], "traceName": "t"})json"));
  ASSERT_EQ(trace.errors.size(), 1U);
  EXPECT_EQ(trace.errors[0].message, "1 event has no usable time");
  const Timeline& timeline = trace.timeline;
  EXPECT_EQ(trace.events, 9U);
  EXPECT_EQ(timeline.rank, 3);
  EXPECT_EQ(timeline.world_size, 8);
  EXPECT_EQ(timeline.base_ns, 1700000000000000001);
  ASSERT_EQ(timeline.work.size(), 3U);
  EXPECT_EQ(timeline.work[0].kind, WorkKind::kCommunication);
  EXPECT_EQ(timeline.work[0].stream, 20);
  EXPECT_EQ(timeline.work[1].start_ns, 100'001);
  EXPECT_EQ(timeline.work[1].end_ns, 102'501);
  EXPECT_EQ(timeline.work[1].stream, 9);
  EXPECT_EQ(timeline.work[1].device, 1);
  EXPECT_EQ(timeline.work[1].correlation, 12U);
  EXPECT_EQ(timeline.names[timeline.work[1].name], "gemm \"}]{[");
  EXPECT_EQ(timeline.work[2].kind, WorkKind::kMemory);
  EXPECT_EQ(timeline.work[2].end_ns, 101'000);
}

TEST_F(ImportKineto, ReadsMoreThanAPiece) {
  std::string text = R"({"traceEvents": [)";
  constexpr int kEvents = 50'000;  // 5 MB
  for (int i = 0; i < kEvents; ++i) {
    text += (i == 0 ? "\n" : ",\n") + std::string(kKernel);
  }
  const KinetoTrace trace = read_kineto(file(text + "\n]}"));
  EXPECT_TRUE(trace.errors.empty());
  EXPECT_EQ(trace.timeline.work.size(), size_t{kEvents});

  const std::string path = folder_ / "trace.json.gz";
  const gzFile zipped = gzopen(path.c_str(), "wb");
  gzwrite(zipped, text.data(), static_cast<unsigned>(text.size()));
  gzclose(zipped);
  EXPECT_TRUE(looks_like_kineto(path));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const KinetoTrace half = read_kineto(path);
  ASSERT_EQ(half.errors.size(), 1U);
  EXPECT_TRUE(half.errors[0].truncated);
  EXPECT_GT(half.timeline.work.size(), size_t{kEvents} / 4);
}

// Whose profile it is, and when it began, stands before the events.
TEST_F(ImportKineto, ReadsWhatStandsBeforeEventsThatAreCut) {
  const std::string before = R"({"distributedInfo": {"rank": 3, "world_size": 4}, )"
                             R"("baseTimeNanoseconds": 1700000000000000000, "traceEvents": [)";
  const std::string text = before + std::string(kKernel) + "," + std::string(kKernel);
  constexpr size_t kLength = sizeof kKernel - 1;
  for (const size_t cut : {size_t{1}, kLength / 2, kLength, kLength + 1}) {
    const KinetoTrace trace = read_kineto(file(text.substr(0, text.size() - cut)));
    ASSERT_EQ(trace.errors.size(), 1U) << cut;
    EXPECT_TRUE(trace.errors[0].truncated) << cut;
    EXPECT_EQ(trace.timeline.rank, 3) << cut;
    EXPECT_EQ(trace.timeline.world_size, 4) << cut;
    EXPECT_EQ(trace.timeline.base_ns, 1700000000000000000) << cut;
  }
}

TEST_F(ImportKineto, ReadsAnArrayAlone) {
  const KinetoTrace trace = read_kineto(file("[" + std::string(kKernel) + "]"));
  EXPECT_TRUE(trace.errors.empty());
  EXPECT_EQ(trace.timeline.work.size(), 1U);
}

TEST_F(ImportKineto, SaysWhereItGoesWrong) {
  const std::string whole = std::string(R"({"traceEvents": [)") + kKernel + ", " + kKernel;
  struct Case {
    std::string text;
    size_t work;
    std::string message;
  };
  const Case cases[] = {
      {"", 0, "found neither"},
      {"{}", 0, "found neither"},
      {whole, 2, "ends in the middle"},
      {whole + R"(, {"ph)", 2, "ends in the middle"},
      {whole + R"(, {"ph" "X"}]})", 2, "expected JSON"},
      {whole + "]}}", 2, "closes nothing"},
      {std::string(2000, '['), 0, "nested more than"},
  };
  for (const Case& wrong : cases) {
    const KinetoTrace trace = read_kineto(file(wrong.text));
    ASSERT_EQ(trace.errors.size(), 1U) << wrong.text;
    EXPECT_NE(trace.errors[0].message.find(wrong.message), std::string::npos)
        << wrong.text << ": " << trace.errors[0].message;
    EXPECT_EQ(trace.timeline.work.size(), wrong.work) << wrong.text;
    EXPECT_EQ(trace.errors[0].fatal, trace.events == 0) << wrong.text;
  }
}

// PyTorch before 1.8.1 wrote bytes into names that no JSON has, and until 2.1 paths of Windows and
// quotes as they are; "inf" was a bandwidth.
TEST_F(ImportKineto, OneEventThatIsNoJsonCostsNoOther) {
  const std::string kernel = kKernel;
  const auto named = [](const std::string& name) {
    return R"({"ph": "X", "cat": "Kernel", "name": ")" + name +
           R"(", "pid": 0, "tid": "stream 7", "ts": 20, "dur": 2, "args": {"device": 0, "x": inf}})";
  };
  const std::string before = R"({"schemaVersion": 1, "traceEvents": [)";
  const auto with_kernel_named = [&](const std::string& name) {
    return before + kernel + ", " + named(name) + ", " + kernel + "]}";
  };
  for (const char* name : {"a\x01\xff"
                           "b",
                           "a\nb", "torch\\cuda\\__init__.py(219): x"}) {
    const KinetoTrace trace = read_kineto(file(with_kernel_named(name)));
    EXPECT_TRUE(trace.errors.empty()) << name;
    EXPECT_EQ(trace.timeline.work.size(), 3U) << name;
  }
  const std::string bad = named("a \"b\" c");
  const KinetoTrace trace =
      read_kineto(file(before + kernel + ", " + bad + ", " + kernel + ", " + bad + "]}"));
  EXPECT_EQ(trace.timeline.work.size(), 2U);
  ASSERT_EQ(trace.errors.size(), 1U);
  EXPECT_GE(trace.errors[0].offset, before.size() + kernel.size() + 2);
  EXPECT_LT(trace.errors[0].offset, before.size() + kernel.size() + 2 + bad.size());
  EXPECT_TRUE(trace.errors[0].message.ends_with("; left out for that: 2 of 4 events"))
      << trace.errors[0].message;
}

// As Intel's XPUs (PyTorch 2.10), ROCm and backends of others write them.
TEST_F(ImportKineto, LaunchesOfOtherHardware) {
  struct Case {
    const char* category;
    const char* launch;
    const char* waits;
    const char* kernel;
  };
  for (const Case& hardware :
       {Case{"xpu_runtime", "urEnqueueKernelLaunch", "urQueueFinish",
             "oneccl_reduce_base<float, 2, 16, 1, 1, 2>"},
        Case{"hip_runtime", "hipLaunchKernel", "hipDeviceSynchronize",
             "ncclDevKernel_Generic(ncclDevComm*)"},
        Case{"privateuse1_runtime", "Launch", "cudaDeviceSynchronize", "nccl"}}) {
    const auto call = [&](const char* name, int correlation) {
      return std::string(R"({"ph": "X", "cat": ")") + hardware.category + R"(", "name": ")" + name +
             R"(", "pid": 9, "tid": 9, "ts": 1, "dur": 1, "args": {"correlation": )" +
             std::to_string(correlation) + "}}, ";
    };
    const KinetoTrace trace = read_kineto(
        file(R"({"traceEvents": [)" + call(hardware.launch, 5) + call(hardware.waits, 6) +
             R"({"ph": "X", "cat": "kernel", "name": ")" + hardware.kernel +
             R"(", "pid": 0, "tid": 3, "ts": 2, "dur": 1, "args": {"device": 0, "correlation": 5,)"
             R"( "sycl queue": 64, "l0 queue": "0x000055d08b8fc138"}}]})"));
    EXPECT_TRUE(trace.errors.empty());
    ASSERT_EQ(trace.timeline.work.size(), 1U);
    EXPECT_EQ(trace.timeline.work[0].stream, 3);
    EXPECT_EQ(trace.timeline.work[0].kind, WorkKind::kCommunication) << hardware.kernel;
    ASSERT_EQ(trace.timeline.calls.size(), 2U) << hardware.category;
    EXPECT_EQ(trace.timeline.calls[0].correlation, 5U);
    EXPECT_EQ(trace.timeline.calls[1].kind, HostCallKind::kBlocking) << hardware.waits;
  }
}

// A hole in a file may be a terabyte; it ends where it begins.
TEST_F(ImportKineto, ANulByteIsNoJson) {
  const std::string before = R"({"schemaVersion": 1, "traceEvents": [)";
  const std::string path = file(before + kKernel);
  std::filesystem::resize_file(path, uint64_t{1} << 33);
  const KinetoTrace trace = read_kineto(path);
  ASSERT_FALSE(trace.errors.empty());
  EXPECT_EQ(trace.errors.back().message, "expected JSON, found a NUL byte");
  EXPECT_EQ(trace.errors.back().offset, before.size() + sizeof kKernel - 1);
  EXPECT_EQ(trace.timeline.work.size(), 1U);
}

TEST_F(ImportKineto, AWrongChecksumIsTold) {
  const std::string path = folder_ / "small.json.gz";
  const gzFile zipped = gzopen(path.c_str(), "wb");
  gzprintf(zipped, "{\"schemaVersion\": 1, \"traceEvents\": [%s]}", kKernel);
  gzclose(zipped);
  EXPECT_TRUE(read_kineto(path).errors.empty());
  std::fstream damaged(path, std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(-8, std::ios::end);
  damaged.put('\x55');
  damaged.close();
  EXPECT_TRUE(looks_like_kineto(path));  // or it would be called no trace
  const KinetoTrace trace = read_kineto(path);
  ASSERT_FALSE(trace.errors.empty());
  EXPECT_EQ(trace.errors.back().message, "expected intact gzip data: incorrect data check");
}

TEST_F(ImportKineto, BearsDamagedText) {
  const std::string whole = std::string(R"({"distributedInfo": {"rank": 1}, "traceEvents": [)") +
                            kKernel + ",\n" + kKernel + R"(], "traceName": "x"})";
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text = whole;
    for (int i = 0; i < 3; ++i) {
      text[random() % text.size()] = "\"\\{}[],:x0-.\0\xff"[random() % 14];
    }
    text.resize(text.size() - (round % 2 == 0 ? 0 : random() % text.size()));
    const KinetoTrace trace = read_kineto(file(text));
    EXPECT_LE(trace.timeline.work.size(), trace.events) << text;
  }
}

// As SGLang merges the traces of a server's ranks: correlations, devices and steps are each rank's.
TEST_F(ImportKineto, MergedRanksAreTakenApart) {
  std::string text = R"({"deviceProperties": [], "distributedInfo": {"rank": 0, "world_size": 2},
 "traceEvents": [)";
  const auto add = [&](const char* part) {
    text +=
        std::string(R"({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": ")") +
        part + R"( 4711", "tid": 1, "ts": 1, "dur": 20},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": ")" +
        part +
        R"( 4711", "tid": 1, "ts": 2, "dur": 1, "args": {"correlation": 5}},
{"ph": "X", "cat": "kernel", "name": "k", "pid": ")" +
        part +
        R"( 0", "tid": 7, "ts": 10, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 5}},
)";
  };
  add("[TP01-PP00]");
  add("[TP00-PP00]");
  text += R"({"ph": "M", "name": "process_name", "pid": "[TP00-PP00] 0"}]})";
  const std::vector<KinetoTrace> ranks = read_kineto_ranks(file(text));
  ASSERT_EQ(ranks.size(), 2U);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Timeline& timeline = ranks[i].timeline;
    EXPECT_EQ(timeline.rank, static_cast<int>(i));
    EXPECT_EQ(timeline.world_size, 2);
    EXPECT_EQ(timeline.work.size(), 1U);
    EXPECT_EQ(timeline.step_starts.size(), 1U);
    EXPECT_TRUE(timeline.source.ends_with(i == 0 ? " [TP00-PP00]" : " [TP01-PP00]"));
    EXPECT_TRUE(ranks[i].errors.empty());
  }
}

// JSON Lines, as filters and log shippers leave them.
TEST_F(ImportKineto, OneEventOnEachLine) {
  const auto kernel = [](int correlation) {
    return R"({"ph": "X", "cat": "kernel", "name": "k]}", "pid": 0, "tid": 7, "ts": 10, "dur": 2, "args": {"correlation": )" +
           std::to_string(correlation) + "}}";
  };
  for (const char* between : {"\n", "\r\n", "\n\n", " \n"}) {
    std::string text;
    for (int i = 1; i <= 20'000; ++i) {  // more than one piece
      text += kernel(i) + between;
    }
    const std::string path = file(text);
    EXPECT_TRUE(looks_like_kineto(path));
    const KinetoTrace trace = read_kineto(path);
    EXPECT_TRUE(trace.errors.empty()) << trace.errors.front().message;
    EXPECT_EQ(trace.timeline.work.size(), 20'000U);
    const KinetoTrace cut = read_kineto(file(text.substr(0, text.size() - 8)));
    EXPECT_EQ(cut.timeline.work.size(), 19'999U);
    EXPECT_FALSE(cut.errors.empty());
  }
  EXPECT_FALSE(looks_like_kineto(file("{\"loss\": 1}\n{\"loss\": 2}\n")));
}

TEST(MergedParts, WhichRankEachIs) {
  using kineto::merged_pid;
  using kineto::ranks_of_parts;
  const auto pid = merged_pid(R"("[TP01-DP00] Spans 3")");
  ASSERT_TRUE(pid);
  EXPECT_EQ(pid->part, "TP01-DP00");
  EXPECT_EQ(pid->pid, "Spans 3");
  for (const char* other : {"4711", R"("Spans")", R"("[Unknown] 7")", R"("[TP] 7")", R"("[TP01]7")",
                            R"("[TP01-] 7)", R"("[]")"}) {
    EXPECT_FALSE(merged_pid(other)) << other;
  }
  EXPECT_EQ(ranks_of_parts({"TP00-PP01", "TP00-PP00", "TP01-PP00", "TP01-PP01"}),
            (std::vector<int>{2, 0, 1, 3}));
  // Attention split by data within one model: the tensor's part tells it.
  EXPECT_EQ(ranks_of_parts({"TP01-DP01", "TP00-DP00"}), (std::vector<int>{1, 0}));
  EXPECT_EQ(ranks_of_parts({"TP01-DP00", "TP00-DP01", "TP00-DP00", "TP01-DP01"}),
            (std::vector<int>{1, 2, 0, 3}));
}

}  // namespace
}  // namespace traintrace
