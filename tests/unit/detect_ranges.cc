// uses: analyzer
// Ranges of NVTX as evidence: where in its program the job itself says that ranks are.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/judge/judge.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

using Lines = std::vector<std::string>;

// Of all findings of that code, what is said of ranges.
Lines ranges_in(const std::string& text, std::string_view code) {
  Result<DumpText> dump = parse_dump(text, "test");
  EXPECT_TRUE(dump) << dump.error().message;
  const Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  EXPECT_TRUE(judged);
  Lines lines;
  bool found = false;
  for (const Finding& finding : judged->findings) {
    found = found || finding.code == code;
    std::copy_if(finding.evidence.begin(), finding.evidence.end(), std::back_inserter(lines),
                 [&](const std::string& line) {
                   return finding.code == code &&
                          (line.find(" in: ") != line.npos || line.find(" noted: ") != line.npos ||
                           line.ends_with("in other ranges"));
                 });
  }
  EXPECT_TRUE(found) << code;
  return lines;
}

constexpr const char* kNames =
    "range 1 \"step 1284\"\nrange 2 backward\nrange 3 layers.17\nrange 4 eval\n"
    "range 5 ncclAllReduce domain=NCCL\n";

std::string open(std::initializer_list<int> ranges) {
  std::string lines;
  for (const int range : ranges) {
    lines += "open-range 1 at=+1 range=" + std::to_string(range) + "\n";
  }
  return lines;
}

std::string hang(const std::string& culprit, const std::string& others,
                 const std::string& end = "+1 2 polls cudaStreamQuery @mining.py:41:mine\n") {
  return "ranks 2\n" + (kNames + culprit) + "ranks 0,1,3\n" + kNames + others +
         "communicator dp members=0-3\n+1 0,1,3 enqueues ncclAllReduce on dp @train.py:8:step\n" +
         end + "end +40\n";
}

TEST(Ranges, OfCulpritAndVictimsAreEvidenceOfAHang) {
  EXPECT_EQ(ranges_in(hang(open({1, 4}), open({1, 2, 3, 5})), "collective.missing-rank"),
            (Lines{"rank 2 is in: step 1284 > eval",
                   "ranks 0,1,3 are in: step 1284 > backward > layers.17 > NCCL/ncclAllReduce"}));
}

TEST(Ranges, OfADeadRankAreThoseThatItWasIn) {
  const Lines lines =
      ranges_in(hang(open({1, 2}), open({1}), "+1 2 dies\n"), "collective.dead-rank");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "rank 2 was in: step 1284 > backward");
  EXPECT_EQ(lines[1], "ranks 0,1,3 are in: step 1284");
}

// `with` leaves a range on its way out; what a library pushes while the process ends is not the
// job's.
TEST(Ranges, OfOneThatAnExceptionEndedAreThoseItCameInto) {
  const auto told = [](const std::string& records) {
    return ranges_in("ranks 2 pid=1002\n" + std::string(kNames) +
                         "thread 1 tid=1002\nranks 0,1,3\ncommunicator dp members=0-3\n"
                         "+1 0,1,3 enqueues ncclAllReduce on dp @train.py:8:step\n" +
                         records + "+1.5 2 exits status=1\nend +40\n",
                     "collective.early-exit");
  };
  const std::string pushes =
      "+0.3 2/1 * nvtxRangePush range=1\n+0.6 2/1 * nvtxRangePush range=2\n"
      "+0.7 2/1 * nvtxRangePush range=3\n+0.8 2/1 * nvtxRangePop range=3\n"
      "+0.9 2/1 * nvtxRangePush range=4\n+1.0 2/1 * nvtxRangePop range=4\n"
      "+1.1 2/1 * nvtxRangePop range=2\n+1.1 2/1 * nvtxRangePop range=1\n";
  const Lines last = {"rank 2 was last in: step 1284 > backward > eval"};
  EXPECT_EQ(told(pushes), last);
  EXPECT_EQ(told(pushes + "+1.2 2/1 * nvtxRangePush range=5\n+1.3 2/1 * nvtxRangePop range=5\n"),
            last);
  EXPECT_EQ(told(""), Lines());
}

TEST(Ranges, ThatNobodyNamedAreNoEvidence) {
  EXPECT_EQ(ranges_in(hang("", ""), "collective.missing-rank"), Lines());
  EXPECT_EQ(ranges_in(hang("", open({1})), "collective.missing-rank"),
            Lines{"ranks 0,1,3 are in: step 1284"});
}

TEST(Ranges, WithoutAPlaceInTheTableAreCounted) {
  EXPECT_EQ(ranges_in(hang("thread 1 deeper-ranges=7\n" + open({1}),
                           "open-range 1 at=+1 name=\"step 99999\"\n" + open({0, 77})),
                      "collective.missing-rank"),
            (Lines{"rank 2 is in: step 1284 > (7 more)",
                   "ranks 0,1,3 are in: step 99999 > (a range without a name) > range 77"}));
}

TEST(Ranges, OfAThreadThatEndedAreNotSaid) {
  EXPECT_EQ(ranges_in(hang("thread 1 ended=+1\n" + open({1}), ""), "collective.missing-rank"),
            Lines());
}

TEST(Ranges, OfAnotherThreadThatCalledLaterAreSaidBeside) {
  const std::string engine = "thread 1 tid=1000\n" + open({1, 2}) +
                             "thread 9 tid=1001 name=pt_autograd_0 last=ncclAllReduce last-at=+3\n"
                             "open-range 9 at=+2 range=3\n";
  EXPECT_EQ(ranges_in("ranks 2 pid=1000\n" + (kNames + engine) +
                          "ranks 0,1,3\ncommunicator dp members=0-3\n"
                          "+1 0,1,3 enqueues ncclAllReduce on dp @train.py:8:step\n"
                          "+1 2 polls cudaStreamQuery @mining.py:41:mine until=+2\nend +40\n",
                      "collective.missing-rank"),
            Lines{"rank 2 is in: step 1284 > backward; in its thread pt_autograd_0: layers.17"});
}

TEST(Ranges, OfManyRanksInManyPlacesAreFewLines) {
  std::string text;
  for (int rank = 0; rank < 10; ++rank) {
    text += "ranks " + std::to_string(rank) + "\nrange 1 \"step " + std::to_string(rank) + "\"\n" +
            open({1});
  }
  text +=
      "communicator dp members=0-9\n+1 0-8 enqueues ncclAllReduce on dp @train.py:8:step\n"
      "+1 9 polls cudaStreamQuery @mining.py:41:mine\nend +40\n";
  const Lines lines = ranges_in(text, "collective.missing-rank");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "rank 9 is in: step 9");
  EXPECT_EQ(lines[5], "and 5 more are in other ranges");
}

TEST(Ranges, OfAHealthyRunAreNoFinding) {
  Result<DumpText> dump = parse_dump("ranks 0-3\n" + (kNames + open({1, 2})) +
                                         "communicator dp members=0-3\n"
                                         "+1 0-3 calls ncclAllReduce on dp x20\n+2 0-3 exits\n",
                                     "test");
  ASSERT_TRUE(dump) << dump.error().message;
  const Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  ASSERT_TRUE(judged);
  for (const Finding& finding : judged->findings) {
    EXPECT_EQ(finding.severity, Severity::kInfo) << finding.code;
    for (const std::string& line : finding.evidence) {
      EXPECT_EQ(line.find(" in: "), line.npos) << line;
    }
  }
}

TEST(Ranges, StepsAreAmongThemAndNotesOfCulpritsAreBeside) {
  const std::string told =
      "open-range 1 at=+1 name=\"step 7\" sort=step\n"
      "open-range 1 at=+1 name=\"samples 0-31\" sort=note\n" +
      open({2});
  EXPECT_EQ(ranges_in(hang(told, told), "collective.missing-rank"),
            (Lines{"rank 2 is in: step 7 > backward", "ranks 0,1,3 are in: step 7 > backward",
                   "rank 2 noted: samples 0-31"}));
  EXPECT_EQ(ranges_in(hang("open-range 1 at=+1 name=\"file a\" sort=note\n", ""),
                      "collective.missing-rank"),
            Lines{"rank 2 noted: file a"});
}

TEST(Ranges, OfThoseWhoMayBeWrongAreSaidWithoutACulprit) {
  EXPECT_EQ(ranges_in("ranks 2\n" + std::string(kNames) + open({1, 4}) +
                          "open-range 1 at=+1 name=\"file a\" sort=note\nranks 3\n" + kNames +
                          open({1, 2}) +
                          "communicator dp members=2,3\n"
                          "+1 3 enqueues ncclAllReduce on dp @train.py:8:step\n"
                          "+1 2 polls cudaStreamQuery @mining.py:41:mine\nend +40\n",
                      "collective.missing-rank"),
            (Lines{"rank 2 is in: step 1284 > eval", "rank 3 is in: step 1284 > backward",
                   "rank 2 noted: file a"}));
}

// Its watchdog gave the communicator up, and its main thread went on until the process ended.
TEST(Ranges, OfAVictimAreThoseInWhichItWaited) {
  const std::string victim = "thread 1 tid=1003\nopen-range 1 at=+0.3 range=1\n";
  const auto told = [&](const std::string& records) {
    return ranges_in("ranks 2\n" + std::string(kNames) + open({1, 4}) + "ranks 3 pid=1003\n" +
                         kNames + victim +
                         "communicator dp members=2,3\n"
                         "+1 3 enqueues ncclAllReduce on dp @train.py:8:step\n"
                         "+1 2 polls cudaStreamQuery @mining.py:41:mine\n" +
                         records +
                         "+33 3 calls ncclCommAbort on dp @handler.py:7:give_up\n"
                         "+34 3 dies\nend +40\n",
                     "collective.missing-rank");
  };
  const std::string pushes =
      "+0.3 3/1 * nvtxRangePush range=1\n+0.4 3/1 * step step=7\n+0.5 3/1 * step step=8\n"
      "+0.6 3/1 * nvtxRangePush range=2\n+33.1 3/1 * nvtxRangePop range=2\n";
  EXPECT_EQ(told(pushes), (Lines{"rank 2 is in: step 1284 > eval",
                                 "rank 3 was in: step 1284 > step 8 > backward"}));
  EXPECT_EQ(told(""), (Lines{"rank 2 is in: step 1284 > eval", "rank 3 was in: step 1284"}))
      << "as far as is known";
}

TEST(Ranges, ANoteIsWholeWhereItsRecordsAreThere) {
  const std::string start = std::string(40, 'x');
  const std::string told =
      "range 9 samples\nopen-range 1 at=+1 name=\"samples " + start + "\" sort=note\n";
  EXPECT_EQ(ranges_in(hang(told, ""), "collective.missing-rank"),
            Lines{"rank 2 noted: samples " + start + ".."});
  EXPECT_EQ(ranges_in(hang(told, "",
                           "+1 2/1 * note range=9 offset=0 bytes=5 text0=0x6968\n"
                           "+1 2/1 * note range=9 offset=2 bytes=5 text0=0x212121\n"
                           "+1 2 polls cudaStreamQuery @mining.py:41:mine\n"),
                      "collective.missing-rank"),
            Lines{"rank 2 noted: samples hi!!!"});
}

}  // namespace
}  // namespace traintrace
