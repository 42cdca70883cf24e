// uses: analyzer
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/detectors/support.h"
#include "analyzer/importers/logs/testimony.h"
#include "analyzer/judge/judge.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

std::string rank_json(int rank, int count) {
  return fmt::format(
      R"({{"rank": {}, "host": "10.0.0.7", "pid": {}, "cuda_dev": 0, "nvml_dev": 0,
 "status": {{"init_state": 0, "async_error": 0, "finalize_called": false, "abort_flag": false}},
 "collective_counts": {{"Broadcast": 0, "AllGather": 2, "AllReduce": {}}}}})",
      rank, 4000 + rank, count);
}

std::string status_json(const std::string& ranks, const std::string& missing) {
  return R"({"nccl_version": "2.28.9", "communicators_count": 1, "communicators": [
 {"hash": "0x5a13", "secondary_hash": "0x1:0x2", "size": 3, "ranks": [)" +
         ranks + R"(], "missing_ranks": [)" + missing + "]}]}";
}

// As NCCL 2.28.9 writes it: no comma behind nvml_dev.
constexpr char kMissing[] =
    R"({"rank": 2, "host": "10.0.0.7", "pid": 4002, "cuda_dev": 2, "nvml_dev": 2
 "status": {"unresponsive": true, "considered_dead": true}})";

TEST(Ras, CountsAndWhoIsMissing) {
  const std::string text = status_json(rank_json(0, 41) + ',' + rank_json(1, 40), kMissing);
  EXPECT_TRUE(looks_like_ras(text));
  const Result<Testimony> status = read_ras("SERVER PROTOCOL 2\nOK\n" + text, "ras.json");
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(status->witnesses.size(), 3U);
  const Witness& first = status->witnesses[0];
  EXPECT_EQ(first.communicator, 0x5a13U);
  EXPECT_EQ(first.size, 3);
  EXPECT_EQ(first.pid, 4000);
  EXPECT_EQ(first.says, "2 AllGather, 41 AllReduce launched");
  EXPECT_EQ(status->witnesses[1].says, "2 AllGather, 40 AllReduce launched");
  EXPECT_EQ(status->witnesses[2].local_rank, 2);
  EXPECT_EQ(status->witnesses[2].says, "does not answer, and is considered dead");
}

TEST(Ras, WhatIsDamagedIsAnError) {
  const std::string whole = status_json(rank_json(0, 41), kMissing);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(read_ras(whole.substr(0, size), "ras.json")) << size;
  }
  EXPECT_FALSE(read_ras(R"({"communicators": 3})", "ras.json"));
  EXPECT_TRUE(read_ras(R"({"communicators": [3, {"ranks": [7], "missing_ranks": 1}]})", "x"));
  const Result<Testimony> strange = read_ras(
      R"({"communicators": [{"hash": 5, "size": 99999999999, "ranks":
 [{"rank": -7, "pid": 5000000000, "status": [], "collective_counts": [1, 2]}]}]})",
      "x");
  ASSERT_TRUE(strange);
  ASSERT_EQ(strange->witnesses.size(), 1U);
  EXPECT_EQ(strange->witnesses[0].local_rank, -1);
  EXPECT_EQ(strange->witnesses[0].pid, 0);
  EXPECT_EQ(strange->witnesses[0].says, "no collective launched");
}

constexpr char kLog[] =
    "starting\n"
    "node7:4000:5000 [0] NCCL INFO ncclCommInitRank comm 0x550 rank 0 nranks 3 cudaDev 0 busId 1 "
    "commId 0x5a13 - Init COMPLETE\n"
    "(worker pid=1) node7:4000:5000 [0] NCCL INFO AllReduce: opCount a sendbuff 0x1 recvbuff 0x2 "
    "count 64 datatype 7 op 0 root 0 comm 0x550 [nranks=3] stream 0x7\n"
    "[default0]:node7:4000:5000 [0] NCCL INFO Broadcast: opCount b sendbuff 0x1 recvbuff 0x2 "
    "count 65 datatype 7 op 0 root 0 comm 0x550 [nranks=3] stream 0x7 task 0 globalrank 0\r\n"
    "node7:4001:5001 [1] NCCL WARN NET/IB : got completion with error 12\n"
    "node7:4001:5001 [1] NCCL WARN and so on\n";

TEST(NcclLog, OperationsByCommunicatorAndTheFirstWarning) {
  EXPECT_TRUE(looks_like_nccl_log(kLog));
  const Result<Testimony> log = read_nccl_log(kLog, "log");
  ASSERT_TRUE(log) << log.error().message;
  ASSERT_EQ(log->witnesses.size(), 2U);
  EXPECT_EQ(log->witnesses[0].pid, 4001);
  EXPECT_EQ(log->witnesses[0].says, "warned first: NET/IB : got completion with error 12");
  const Witness& side = log->witnesses[1];
  EXPECT_EQ(side.host, "node7");
  EXPECT_EQ(side.communicator, 0x5a13U);
  EXPECT_EQ(side.handle, 0x550U);
  EXPECT_EQ(side.local_rank, 0);
  EXPECT_EQ(side.says,
            "1 AllReduce, 1 Broadcast logged, the last Broadcast of 65 elements as opCount b");
}

TEST(NcclLog, OtherLinesAreNone) {
  for (const char* text :
       {"", "\n", " NCCL INFO ", "NCCL INFO comm 0x5 rank 0 nranks 2", "a:b:c [0] NCCL INFO x",
        ":1:2 [0] NCCL INFO x", "h:-1:2 [0] NCCL INFO x", "h:1 [0] NCCL INFO x"}) {
    EXPECT_FALSE(looks_like_nccl_log(text)) << text;
    EXPECT_FALSE(read_nccl_log(text, "log")) << text;
  }
}

TEST(NcclLog, AnAddressThatIsUsedAgainBeginsAnew) {
  const std::string again = std::string(kLog) +
                            "node7:4000:5000 [0] NCCL INFO comm 0x550 rank 0 nranks 3 - Destroy "
                            "COMPLETE\n"
                            "node7:4000:5000 [0] NCCL INFO ncclCommInitRank comm 0x550 rank 2 "
                            "nranks 4 cudaDev 0 commId 0x77 - Init COMPLETE\n";
  const Result<Testimony> log = read_nccl_log(again, "log");
  ASSERT_TRUE(log);
  EXPECT_EQ(log->witnesses[1].communicator, 0x77U);
  EXPECT_EQ(log->witnesses[1].says, "no operation logged");
}

// Rank 2 leaves out a call of several.
constexpr char kStory[] =
    "ranks 0-2\n"
    "communicator dp members=0-2\n"
    "+1 0-2 calls ncclAllReduce on dp x3 every=1ms count=8\n"
    "+2 0-1 enters ncclAllReduce on dp count=8\n"
    "end +60\n";

Finding error_with(const std::vector<Testimony>& testimonies) {
  Result<DumpText> dump = parse_dump(kStory, "story");
  EXPECT_TRUE(dump) << (dump ? "" : dump.error().message);
  const Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  EXPECT_TRUE(judged);
  Finding about;
  about.code = "collective.missing-rank";
  about.culprits = {Rank{2}};
  about.victims = {Rank{0}, Rank{1}};
  std::vector<Finding> findings = {about};
  add_support(judged->run, testimonies, findings);
  return findings[0];
}

Witness said(int rank, const std::string& text) {
  Witness witness;
  witness.rank = rank;
  witness.says = text;
  return witness;
}

TEST(Support, IsEvidenceAndNothingElse) {
  const Finding finding = error_with(
      {{"/x/ras.json", "NCCL RAS", {said(0, "41"), said(1, "41"), said(2, "40"), said(9, "99")}}});
  EXPECT_EQ(finding.culprits, Ranks{Rank{2}});
  EXPECT_EQ(finding.code, "collective.missing-rank");
  EXPECT_EQ(finding.evidence, (std::vector<std::string>{"NCCL RAS (ras.json) of rank 2: 40",
                                                        "NCCL RAS (ras.json) of ranks 0,1: 41"}));
}

TEST(Support, WhoCannotBeToldIsLeftOut) {
  Witness nobody;
  nobody.says = "1";
  Witness stranger = nobody;
  stranger.pid = 987654;
  EXPECT_TRUE(error_with({{"f", "NCCL RAS", {nobody, stranger}}}).evidence.empty());
}

TEST(Support, HearsayAloneBlamesNobody) {
  const std::string text = status_json(rank_json(0, 41) + ',' + rank_json(1, 40), kMissing);
  const Result<Testimony> status = read_ras(text, "ras.json");
  ASSERT_TRUE(status);
  const std::vector<Testimony> all = {*status};
  const Result<JudgedRun> judged = judge(processes_of(all), {}, {});
  ASSERT_TRUE(judged) << judged.error().message;
  const Finding finding = supported_finding(judged->run, all);
  EXPECT_EQ(finding.code, "run.in-progress");
  EXPECT_TRUE(finding.culprits.empty());
  EXPECT_NE(std::find(finding.evidence.begin(), finding.evidence.end(),
                      "rank 1 on communicator 0x5a13: 2 AllGather, 40 AllReduce launched"),
            finding.evidence.end());
}

}  // namespace
}  // namespace traintrace
