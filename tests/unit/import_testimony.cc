// uses: analyzer
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/detectors/comm/proxy_error.h"
#include "analyzer/detectors/support.h"
#include "analyzer/importers/logs/testimony.h"
#include "analyzer/judge/judge.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/text/wall_clock.h"

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

// As ncclras of NCCL 2.24 to 2.29 prints it: statistics, and the ranks that are not as most.
constexpr char kText[] = R"(NCCL version 2.27.5 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH
    1         1         1         4         4         4   RUNNING  INCOMPLETE,ERROR

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 483099 on node 172.16.64.213 managing GPU 4

#1-0 (5a13) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 3 -- GPU 4 managed by process 483099 on node 172.16.64.213

#1-0 (0000000000005a13) ERROR
  Asynchronous errors on 2 ranks
  2 ranks reported Remote process exited or there was a network error
  Rank 0 -- GPU 1 managed by process 483096 on node 172.16.64.213
  Rank 2 -- GPU 3 managed by process 483098 on node 172.16.64.213

Warnings
========

TIMEOUT
  Encountered 1 communication timeout while gathering communicator data

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different status
  31 ranks have status RUNNING
  Rank 7 has status ABORT -- GPU 7 managed by process 483072 on node 172.16.64.210
  Communicator ranks have different AllReduce operation counts
  26 ranks have launched up to operation 6650
  5 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483065 on node 172.16.64.210
  Rank 4 -- GPU 4 managed by process 483069 on node 172.16.64.210
  Rank 9 has not launched any operations -- [process information not found]
)";

// COMMUNICATOR RANK/SIZE HOST:PID SAYS, a line each.
constexpr char kTextSays[] = R"(0 -1/-1 172.16.64.213:483099 does not answer, and is considered dead
5a13 3/4 172.16.64.213:483099 does not answer
5a13 0/4 172.16.64.213:483096 reported Remote process exited or there was a network error
5a13 2/4 172.16.64.213:483098 reported Remote process exited or there was a network error
27a079b828ff1a75 7/32 172.16.64.210:483072 has status ABORT; 31 ranks have status RUNNING
27a079b828ff1a75 0/32 172.16.64.210:483065 have launched up to AllReduce operation 6649; 26 ranks have launched up to AllReduce operation 6650
27a079b828ff1a75 4/32 172.16.64.210:483069 have launched up to AllReduce operation 6649; 26 ranks have launched up to AllReduce operation 6650
27a079b828ff1a75 9/32 :0 has not launched any operations; 26 ranks have launched up to AllReduce operation 6650
)";

TEST(RasText, WhoDiffersAndFromWhat) {
  for (const std::string& text :
       {std::string(kText), "SERVER PROTOCOL 2\nOK\n" + std::string(kText)}) {
    ASSERT_TRUE(looks_like_ras(text));
    const Result<Testimony> status = read_ras(text, "ras.txt");
    ASSERT_TRUE(status) << status.error().message;
    std::string all;
    for (const Witness& witness : status->witnesses) {
      all += fmt::format("{:x} {}/{} {}:{} {}\n", witness.communicator, witness.local_rank,
                         witness.size, witness.host, witness.pid, witness.says);
    }
    EXPECT_EQ(all, kTextSays);
  }
}

// As it is pasted into reports: below and above other lines of the job (nccl issues 1730, 1762).
TEST(RasText, AmongOtherLinesOfTheJob) {
  const std::string text = "[W ProcessGroupNCCL.cpp:981] x\nNCCL version 2.27.5+cuda12.9\n" +
                           std::string(kText) + "[rank0]: step 7\n";
  ASSERT_TRUE(looks_like_ras(text));
  const Result<Testimony> status = read_ras(text, "job.log");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->witnesses.size(), read_ras(kText, "ras.txt")->witnesses.size());
  EXPECT_FALSE(
      looks_like_ras("NCCL version 2.27.5+cuda12.9\n" + std::string(600, 'x') + "\nJob summary\n"));
  EXPECT_FALSE(looks_like_ras("my NCCL version 2\nJob summary\n"));
}

TEST(RasText, AloneItNamesProcessesWhereNoRankIsSaid) {
  const Result<Testimony> status = read_ras(kText, "ras.txt");
  ASSERT_TRUE(status);
  const std::vector<Testimony> all = {*status};
  RunInput input;  // one run, as analyze takes it
  input.processes = processes_of(all);
  const JudgedRun judged =
      judge(std::move(input), {}, {}, [](traintrace::Run&) { return std::vector<Finding>(); });
  const Finding finding = supported_finding(all);
  EXPECT_TRUE(finding.culprits.empty());
  EXPECT_EQ(finding.title.substr(0, 79),
            "process 483099 on 172.16.64.213 does not answer, and is considered dead, says N");
  EXPECT_EQ(finding.evidence.size(), 6U) << fmt::format("{}", fmt::join(finding.evidence, "\n"));
  for (const char* line :
       {"process 483099 on 172.16.64.213: does not answer, and is considered dead",
        "process 483099 on 172.16.64.213 on communicator 0x5a13: does not answer",
        "ranks 0,4 on communicator 0x27a079b828ff1a75: have launched up to AllReduce operation "
        "6649; 26 ranks have launched up to AllReduce operation 6650"}) {
    EXPECT_NE(std::find(finding.evidence.begin(), finding.evidence.end(), line),
              finding.evidence.end())
        << line;
  }
}

TEST(RasText, WhatIsCutOrStrangeIsNoCrash) {
  const std::string whole = kText;
  const size_t shortest = whole.find("Communicators...");
  for (size_t size = shortest; size < whole.size(); ++size) {
    const Result<Testimony> status = read_ras(whole.substr(0, size), "ras.txt");
    ASSERT_TRUE(status) << size;
    EXPECT_LE(status->witnesses.size(), 8U);
  }
  const std::string head = whole.substr(0, shortest);
  for (const char* strange :
       {"#\n  Rank 1 -- x\n", "  Rank 99999999999 -- GPU 0 managed by process 1 on node a\n",
        "#0-0 (zz) INCOMPLETE\n  Rank -1 -- GPU 0 managed by process 1 on node a\n",
        "DEAD\n  Process on node\n  Process -5 on node a\n", "  Rank 1 -- managed by process \n"}) {
    const Result<Testimony> status = read_ras(head + strange, "ras.txt");
    ASSERT_TRUE(status) << strange;
    EXPECT_TRUE(status->witnesses.empty()) << strange;
  }
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

// What ended a rank from outside is in the title, where the log says which process it was; a
// finding about something else than an end stays as it is.
TEST(Support, WhatEndedADeadRankIsTold) {
  Result<DumpText> dump = parse_dump(kStory, "story");
  ASSERT_TRUE(dump);
  const Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  ASSERT_TRUE(judged);
  Witness killed = said(2, "killed");
  killed.outer_cause = "killed because the host's memory ran out";
  Witness unknown = killed;
  unknown.rank.reset();
  unknown.who = "Slurm task 2 on a";
  Witness long_ago = killed;
  long_ago.ended = 1;
  const auto explained = [&](const Witness& witness, const std::string& code) {
    Finding about;
    about.code = code;
    about.title = "rank 2 died";
    about.advice = "find out";
    about.culprits = {Rank{2}};
    std::vector<Finding> findings = {about};
    Testimony testimony{"/x/job.log", "the job's log", {witness}};
    testimony.advice = {"more memory"};
    add_support(judged->run, std::vector{testimony}, findings);
    return findings[0];
  };
  const Finding told = explained(killed, "collective.dead-rank");
  EXPECT_EQ(told.title,
            "rank 2 died; rank 2 was killed because the host's memory ran out, says the job's log");
  EXPECT_EQ(told.advice, "more memory");
  EXPECT_EQ(explained(killed, "collective.missing-rank").title, "rank 2 died");
  const Finding open = explained(unknown, "collective.dead-rank");
  EXPECT_EQ(open.title, "rank 2 died");
  EXPECT_EQ(open.advice, "find out");
  EXPECT_EQ(open.evidence.back(),
            "the job's log (job.log): Slurm task 2 on a was killed because the host's memory ran "
            "out; which rank that is, is not known");
  if (is_wall_clock(static_cast<int64_t>(judged->run.end))) {
    EXPECT_EQ(explained(long_ago, "collective.dead-rank").title, "rank 2 died");
  }
}

// The line that raised stands before that of the last call.  Who was killed ended of no exception:
// that one is of an earlier attempt.
TEST(Support, TheLineThatRaisedStandsFirst) {
  const auto place_after = [](const std::string& end) {
    Result<DumpText> dump = parse_dump(
        "ranks 0-2\n"
        "communicator dp members=0-2\n"
        "+1 0-2 calls ncclAllReduce on dp x3 every=1ms count=8\n"
        "+2 0-1 enters ncclAllReduce on dp count=8\n"
        "+2 2 " +
            end + "\nend +60\n",
        "story");
    EXPECT_TRUE(dump) << (dump ? "" : dump.error().message);
    const Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
    EXPECT_TRUE(judged);
    Finding about;
    about.code = "collective.early-exit";
    about.title = "rank 2 exited";
    about.culprits = {Rank{2}};
    about.where = {{Rank{2}, "/w/train.py", 35, "train_step", "python"}};
    Witness witness = said(2, "raised");
    witness.raised = {"KeyError: 'label'", "/w/data.py", 118, "check"};
    std::vector<Finding> findings = {about};
    add_support(judged->run, std::vector{Testimony{"/x/job.log", "the job's log", {witness}}},
                findings);
    return findings[0];
  };
  const Finding raised = place_after("exits status=1");
  ASSERT_EQ(raised.where.size(), 2U);
  EXPECT_EQ(raised.where[0].line, 118);
  EXPECT_EQ(raised.title,
            "rank 2 exited; rank 2 raised KeyError: 'label' at data.py:118 in check, says the "
            "job's log");
  EXPECT_EQ(place_after("exits status=7").where.size(), 1U);
  EXPECT_EQ(place_after("dies").title, "rank 2 exited");
}

// The network of rank 1 fails; rank 3 is told of it later, and all wait.
constexpr char kNetworkFails[] =
    "ranks 0-3\n"
    "communicator dp members=0 size=4\n"
    "communicator dp members=2 rank=2 size=4\n"
    "communicator dp members=1 rank=1 size=4 flags=ready+async-error async-error=6 error-at=+5\n"
    "communicator dp members=3 rank=3 size=4 flags=ready+async-error async-error=6 error-at=+9\n"
    "+1 0-3 calls ncclAllReduce on dp x20 every=50ms\n"
    "+4 0,2,3 enqueues ncclAllReduce on dp\n"
    "end +30\n";

Finding network_failure(const std::vector<Witness>& witnesses) {
  Result<DumpText> dump = parse_dump(kNetworkFails, "story");
  EXPECT_TRUE(dump) << (dump ? "" : dump.error().message);
  Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  EXPECT_TRUE(judged);
  name_proxy_errors(judged->run, std::vector<Testimony>{{"/x/nccl.log", "NCCL's log", witnesses}},
                    judged->findings);
  return judged->findings.front();
}

Witness failed(int rank, int result) {
  Witness witness = said(rank, "failed");
  witness.proxy_failure =
      ProxyFailure{result,      "NET/IB : Got completion from peer 10.0.35.4<1> with status=12",
                   "10.0.35.4", "a",
                   12,          std::nullopt};
  return witness;
}

TEST(Support, AnAsynchronousErrorThatTheProxyThreadHadIsAProxyError) {
  const Finding finding = network_failure({failed(3, 6), failed(1, 6)});
  EXPECT_EQ(finding.code, "comm.proxy-error");
  EXPECT_EQ(finding.culprits, Ranks{Rank{1}});
  EXPECT_EQ(finding.certainty, Certainty::kLikely);
  EXPECT_EQ(finding.title,
            "NCCL's proxy thread failed with ncclRemoteError on rank 1 first, on communicator "
            "dp (4 ranks)");
  const std::vector<std::pair<std::string, int64_t>> values = {{"error", 6},
                                                               {"completion_status", 12}};
  EXPECT_EQ(finding.values, values);
  EXPECT_NE(std::find(finding.evidence.begin(), finding.evidence.end(),
                      "the peer's address, 10.0.35.4, is host a's: ranks 0-3"),
            finding.evidence.end());
}

// The story begins 2023-11-14 22:13:20 UTC; a log of years later is of another job, that of a host
// twelve hours ahead is not.
TEST(Support, ALogOfAnotherJobExplainsNothing) {
  constexpr int64_t kBegin = 1'700'000'000;
  for (const auto& [seconds, code] : std::initializer_list<std::pair<int64_t, const char*>>{
           {kBegin, "comm.proxy-error"},
           {kBegin + 43'200, "comm.proxy-error"},
           {kBegin + 100'000'000, "comm.async-error"},
           {kBegin - 86'400, "comm.async-error"}}) {
    Witness witness = failed(1, 6);
    witness.proxy_failure->warned = seconds * 1'000'000'000;
    EXPECT_EQ(network_failure({witness}).code, code) << seconds;
  }
}

// Of another rank, of another error, of nobody: the recorded error is what is known.
TEST(Support, AnErrorThatTheLogDoesNotExplainStaysWhatItIs) {
  for (const std::vector<Witness>& witnesses : std::vector<std::vector<Witness>>{
           {}, {failed(3, 6)}, {failed(1, 2)}, {said(1, "warned first: something")}}) {
    const Finding finding = network_failure(witnesses);
    EXPECT_EQ(finding.code, "comm.async-error");
    EXPECT_EQ(finding.culprits, Ranks{Rank{1}});
  }
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
  const Finding finding = supported_finding(all);
  EXPECT_EQ(finding.code, "run.in-progress");
  EXPECT_TRUE(finding.culprits.empty());
  EXPECT_NE(std::find(finding.evidence.begin(), finding.evidence.end(),
                      "rank 1 on communicator 0x5a13: 2 AllGather, 40 AllReduce launched"),
            finding.evidence.end());
}

}  // namespace
}  // namespace traintrace
