// uses: analyzer
// A checkpoint of one host is no measure of the job's pace.  Of traces in files the judge has the
// tables, and asks for the records of those that came late.
#include "analyzer/model/waiting/late_hosts.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "analyzer/judge/judge.h"
#include "analyzer/model/waiting/stalls.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

// Rank 0 writes for 40 s; later nothing moves for 47 s.
constexpr const char* kCheckpoint =
    "ranks 0-3\n"
    "communicator dp members=0-3\n"
    "+1 0-3 calls ncclAllReduce on dp x20 every=10ms\n"
    "+2 1-3 calls ncclAllReduce on dp\n"
    "+2.1 1-3 calls cudaStreamSynchronize takes=39.95s\n"
    "+2.1 0 calls cudaMemcpy takes=5ms\n"
    "+42 0 calls ncclAllReduce on dp\n"
    "+43 0-3 enqueues ncclAllReduce on dp\n"
    "+43.1 0-3 enters cudaStreamSynchronize\n"
    "end +90\n";

class TablesOnly : public testing::Test {
 protected:
  // The run as it is judged from files.
  Result<JudgedRun> judged(const std::string& text, bool with_records) {
    Result<DumpText> dump = parse_dump(text, "job");
    EXPECT_TRUE(dump) << dump.error().message;
    for (ProcessTrace& trace : dump->processes) {
      whole_[trace.source] = trace;
      trace.events.clear();
      trace.values.clear();
    }
    RunOptions options;
    if (with_records) {
      options.read_events = [this](const ProcessTrace& tables) {
        read_.push_back(tables.source);
        return &whole_.at(tables.source);
      };
    }
    return judge(std::move(dump->processes), {}, options);
  }

  std::map<std::string, ProcessTrace> whole_;
  std::vector<std::string> read_;
};

TEST_F(TablesOnly, RecordsOfTheLateHostAreRead) {
  const Result<JudgedRun> with = judged(kCheckpoint, true);
  ASSERT_TRUE(with);
  // All of the 40 s but for the copy.
  const Spans& late = with->run.late_hosts;
  ASSERT_EQ(late.size(), 2U);
  EXPECT_EQ(late[1].begin_ns - late[0].end_ns, 5'000'000);
  EXPECT_EQ(late[1].end_ns - late[0].begin_ns, 40'000'000'000);
  EXPECT_EQ(without_late_hosts(with->run, late[0].begin_ns, late[1].end_ns), 5'000'000);
  EXPECT_EQ(read_.size(), 1U);
  EXPECT_EQ(find_stalls(with->run).size(), 1U);
}

TEST_F(TablesOnly, WithoutRecordsItMayHaveBeenTheGpu) {
  const Result<JudgedRun> without = judged(kCheckpoint, false);
  ASSERT_TRUE(without);
  EXPECT_TRUE(without->run.late_hosts.empty());
  EXPECT_TRUE(find_stalls(without->run).empty());
}

TEST_F(TablesOnly, AHostThatWaitedForItsGpuIsNotLateByItself) {
  std::string text = kCheckpoint;
  const std::string copy = "+2.1 0 calls cudaMemcpy takes=5ms\n";
  text.replace(text.find(copy), copy.size(), "+2.1 0 calls cudaMemcpy takes=39.9s\n");
  const Result<JudgedRun> waited = judged(text, true);
  ASSERT_TRUE(waited);
  EXPECT_TRUE(find_stalls(waited->run).empty());
}

TEST_F(TablesOnly, NothingIsReadOfAJobThatCameInTime) {
  std::string text = kCheckpoint;
  const std::string late = "+42 0 calls";
  text.replace(text.find(late), late.size(), "+2.2 0 calls");
  ASSERT_TRUE(judged(text, true));
  EXPECT_EQ(read_, std::vector<std::string>());
}

}  // namespace
}  // namespace traintrace
