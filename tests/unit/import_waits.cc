// uses: analyzer
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/timeline/blocking.h"
#include "analyzer/timeline/idle.h"

namespace traintrace {
namespace {

// A profile in which stream 7 computes, 20 communicates, and waiting is as the rows say.
class ImportWaits : public ::testing::Test {
 protected:
  ~ImportWaits() override { std::filesystem::remove(path_); }

  void add(const std::string& category, const std::string& name, int begin, int end,
           const std::string& arguments) {
    events_ += fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": 7, "ts": {}, "dur": {}, "args": {{{}}}}})",
        events_.empty() ? "" : ",\n", category, name, begin, end - begin, arguments);
  }
  void launch(int correlation, int begin, int end, int stream, const char* name = "gemm") {
    add("cuda_runtime", "cudaLaunchKernel", correlation, correlation + 1,
        fmt::format(R"("correlation": {})", correlation));
    add("kernel", name, begin, end,
        fmt::format(R"("device": 0, "stream": {}, "correlation": {})", stream, correlation));
  }
  // Of `stream` for what had been launched on `awaited` before call `record`.
  void wait(int correlation, int stream, int awaited, int record) {
    call("cudaStreamWaitEvent", correlation);
    add("cuda_sync", "Stream Wait Event", correlation, correlation,
        fmt::format(
            R"("cuda_sync_kind": "Stream Wait Event", "stream": {}, "wait_on_stream": {}, "wait_on_cuda_event_record_corr_id": {}, "correlation": {}, "device": 0)",
            stream, awaited, record, correlation));
  }
  void call(const char* name, int correlation) {
    add("cuda_runtime", name, correlation, correlation + 1,
        fmt::format(R"("correlation": {})", correlation));
  }
  // 100 us of computing, a collective to the 190th that waits for nothing here, and more computing
  // from the 195th on.
  void add_collective() {
    launch(1, 50, 100, 7);
    launch(3, 60, 190, 20, "ncclDevKernel_AllReduce");
    launch(8, 195, 300, 7);
  }
  Timeline read() {
    std::ofstream(path_, std::ios::binary) << R"({"traceEvents": [)" + events_ + "]}";
    KinetoTrace trace = read_kineto(path_);
    EXPECT_TRUE(trace.errors.empty());
    return std::move(trace.timeline);
  }
  static int64_t idle_us(const Timeline& timeline, IdleCause cause) {
    return idle_by_cause(timeline, timeline.work)[static_cast<size_t>(cause)] / 1000;
  }

  std::string events_;
  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                ("import_waits." + std::to_string(getpid()) + ".json");
};

TEST_F(ImportWaits, TellWhatWorkWaitsFor) {
  add_collective();
  wait(6, 7, 20, 5);
  const Timeline timeline = read();
  EXPECT_TRUE(timeline.knows_waits);
  EXPECT_EQ(timeline.waits, (std::vector<WorkWait>{{8, 3}}));
  EXPECT_EQ(idle_us(timeline, IdleCause::kCommunicationWait), 5);
  EXPECT_EQ(length_ns(*blocking_communication(timeline, timeline.work)), 90'000);
}

TEST_F(ImportWaits, AreOfWhatWasLaunchedBeforeTheRecord) {
  add_collective();
  wait(6, 7, 20, 2);
  const Timeline timeline = read();
  EXPECT_EQ(timeline.waits, std::vector<WorkWait>{});
  EXPECT_EQ(idle_us(timeline, IdleCause::kKernelGap), 5);
  EXPECT_EQ(length_ns(*blocking_communication(timeline, timeline.work)), 0);
}

TEST_F(ImportWaits, AreNotKnownWithoutSuchRows) {
  add_collective();
  call("cudaStreamWaitEvent", 6);
  const Timeline timeline = read();
  EXPECT_FALSE(timeline.knows_waits);
  EXPECT_FALSE(blocking_communication(timeline, timeline.work));
}

TEST_F(ImportWaits, AreNotAllWhereACallHasNoRowOrTheHostIsWaitedFor) {
  for (const char* name : {"cudaStreamWaitEvent", "cudaLaunchHostFunc", "cuStreamWaitValue32"}) {
    events_.clear();
    add_collective();
    wait(6, 7, 20, 5);
    call(name, 7);
    const Timeline timeline = read();
    EXPECT_EQ(timeline.waits, (std::vector<WorkWait>{{8, WorkWait::kUnknown}, {8, 3}})) << name;
  }
}

TEST_F(ImportWaits, AreUnknownWhereTheRecordIsNotSaid) {
  add_collective();
  wait(6, 7, 20, -1);
  EXPECT_EQ(read().waits, (std::vector<WorkWait>{{8, WorkWait::kUnknown}}));
}

}  // namespace
}  // namespace traintrace
