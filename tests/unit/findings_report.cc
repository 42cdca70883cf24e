// uses: analyzer
// The three formats of a report about one small hang.
#include "analyzer/reporters/verdict/findings_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analyzer/commands/analyze.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

constexpr const char* kHang = R"(
ranks 0,1,3
ranks 2 pid=1010
loss before-arming 3 severity=warning
communicator dp members=0-3
+1 0-3 calls ncclAllReduce on dp x11 @/job/train.py:118:train_step
+2 0,1,3 enqueues ncclAllReduce on dp @/job/train.py:118:train_step
+2 2 polls cudaStreamQuery @/usr/lib/python3/dist-packages/torch/cuda/streams.py:9:query,/job/<mining>.py:41:hard_examples
end +30
)";

TraceSet traces_of(const char* story) {
  Result<DumpText> dump = parse_dump(story, "story");
  EXPECT_TRUE(dump) << dump.error().message << " in line " << dump.error().offset;
  TraceSet traces;
  traces.processes = std::move(dump->processes);
  return traces;
}

std::string report(const char* story, const char* format, const AnalyzeOptions& given = {}) {
  AnalyzeOptions options = given;
  options.format = format;
  const Result<Analysis> analysis = analyze_traces(traces_of(story), options);
  return analysis ? analysis->text : analysis.error().message;
}

TEST(FindingsReport, JsonFollowsTheSchema) {
  const nlohmann::json json = nlohmann::json::parse(report(kHang, "json"));
  EXPECT_EQ(json["schema"], "traintrace.findings/1");
  EXPECT_EQ(json["verdict"],
            "likely: rank 2 never entered ncclAllReduce #12 on communicator dp (4 ranks); 3 ranks "
            "wait in it; rank 2 is at <mining>.py:41 in hard_examples");
  const nlohmann::json& run = json["run"];
  EXPECT_EQ(run["ranks"], (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(run["missing_ranks"], std::vector<int>{});
  EXPECT_EQ(run["world_size"], 4);
  EXPECT_EQ(run["hosts"], std::vector<std::string>{"a"});
  EXPECT_EQ(run["start_ns"], 1'700'000'000'000'000'000);
  EXPECT_EQ(run["end_ns"], 1'700'000'030'000'000'000);
  EXPECT_EQ(run["sources"], std::vector<std::string>{"traintrace"});
  EXPECT_EQ(json["losses"],
            nlohmann::json::parse(R"([{"stat": "before-arming", "rank": 2, "count": 3,
                                       "severity": "warning", "advice": ""}])"));
  ASSERT_EQ(json["findings"].size(), 2);
  const nlohmann::json& finding = json["findings"][0];
  EXPECT_EQ(finding["code"], "collective.missing-rank");
  EXPECT_EQ(finding["severity"], "error");
  EXPECT_EQ(finding["certainty"], "likely");
  EXPECT_EQ(finding["culprits"], std::vector<int>{2});
  EXPECT_EQ(finding["victims"], (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(finding["sides"], nlohmann::json::parse("[[2],[0,1,3]]"));
  EXPECT_EQ(finding["communicator"]["name"], "dp");
  EXPECT_EQ(finding["communicator"]["size"], 4);
  EXPECT_EQ(finding["communicator"]["id"].get<std::string>().size(), 16);
  EXPECT_EQ(finding["sequence"], 12);
  EXPECT_EQ(finding["operation"], "ncclAllReduce");
  EXPECT_EQ(finding["where"][0],
            nlohmann::json::parse(R"({"rank": 2, "file": "/job/<mining>.py", "line": 41,
                                      "function": "hard_examples", "language": "python"})"));
  EXPECT_EQ(finding["where"][1]["line"], 118);
  EXPECT_EQ(finding["values"]["waited_ns"], 28'000'000'000);
  EXPECT_EQ(json["findings"][1]["code"], "trace.lost-records");
  EXPECT_FALSE(json["findings"][1].contains("communicator"));
}

TEST(FindingsReport, OfRanksThatEndedItIsSaidInThePast) {
  const std::string story = std::string(kHang) + "+29 2 exits status=1\n";
  const nlohmann::json json = nlohmann::json::parse(report(story.c_str(), "json"));
  const std::string verdict = json["verdict"];
  // It left that line, and exited from another.
  EXPECT_NE(verdict.find("rank 2 made its last call at <mining>.py:41 in hard_examples"),
            std::string::npos)
      << verdict;
  EXPECT_NE(json.dump().find("rank 2 polled cudaStreamQuery"), std::string::npos) << json.dump(2);
}

// A sample says where it is; no call was made there.
TEST(FindingsReport, WhereItWasSampledIsNotWhereItMadeACall) {
  constexpr const char* kSampled = R"(
ranks 0-3 running=yes
communicator dp members=0-3
+1 0-3 calls ncclAllReduce on dp x39 @train.py:118:train_step
+3 0,1,3 enqueues ncclAllReduce on dp @train.py:118:train_step
+40 0,1,3 stands waits=nccl on=ncclAllReduce steady @train.py:118:train_step
+40 2 stands waits=gil steady ran @cache.py:31:get,train.py:110:train_step
+40 2 stands role=worker name=python3 waits=lock steady holds-gil @cache.py:70:fill
end +40
)";
  const nlohmann::json json = nlohmann::json::parse(report(kSampled, "json"));
  const std::string verdict = json["verdict"];
  EXPECT_EQ(
      verdict,
      "rank 2 is stuck outside CUDA: it waits for the GIL at cache.py:31 in get; 3 ranks wait "
      "in ncclAllReduce #40 on communicator dp (4 ranks)");
  EXPECT_EQ(json["findings"][0]["where"][0]["line"], 31);
  const std::string text = report(kSampled, "text");
  EXPECT_NE(text.find("last call ncclAllReduce at train.py:118 in train_step"), std::string::npos);
  EXPECT_NE(text.find("now at cache.py:31"), std::string::npos) << text;
}

// The call that a finding is about is named, where it is not the last.
TEST(FindingsReport, TheCallInQuestionIsNamed) {
  constexpr const char* kMismatch = R"(
ranks 0-3
communicator dp members=0-3
+1 0-3 calls ncclAllReduce on dp x20 @a.py:1:f
+2 0,2,3 enqueues ncclAllReduce on dp @a.py:1:f
+2 1 enqueues ncclAllReduce on dp count=1000 @b.py:2:g
+2.1 0-3 enters cudaStreamSynchronize @a.py:9:f
end +30
)";
  const nlohmann::json json = nlohmann::json::parse(report(kMismatch, "json"));
  const std::string verdict = json["verdict"];
  EXPECT_TRUE(
      verdict.ends_with("with count 1000 (4000 bytes), at b.py:2 in g, ranks 0,2,3 with 1024 "
                        "(4096 bytes), at a.py:1 in f; rank 1 is at a.py:9 in f"))
      << verdict;
}

std::string first_evidence(const char* story) {
  const nlohmann::json json = nlohmann::json::parse(report(story, "json"));
  return json["findings"][0]["evidence"].dump();
}

// Who waits for whom is the title, since when and where one line of evidence.
TEST(FindingsReport, ARingIsToldOnce) {
  constexpr const char* kRing = R"(
ranks 0-2
communicator pp members=0-2
+1 0-2 calls ncclAllReduce on pp x5 every=100ms @a.py:1:f
+5 0 enters ncclSend on pp peer=1 count=16777216 @ring.py:5:shift
+5.1 1 enters ncclSend on pp peer=2 count=16777216 @ring.py:5:shift
+5.2 2 enters ncclSend on pp peer=0 count=16777216 @ring.py:5:shift
end +30
)";
  const nlohmann::json json = nlohmann::json::parse(report(kRing, "json"));
  EXPECT_EQ(json["findings"][0]["title"],
            "ranks 0-2 wait in a ring, 0 -> 1 -> 2 -> 0, each in ncclSend on communicator pp (3 "
            "ranks)");
  EXPECT_EQ(
      json["findings"][0]["evidence"],
      nlohmann::json::parse(
          R"(["ranks 0-2 wait in ncclSend on communicator pp (3 ranks) since +5.000 s or later, for 25.0 s, called at ring.py:5 in shift",
              "each of them sends first: a send that is larger than NCCL's buffers does not complete before its receive is posted"])"));
  const std::string text = report(kRing, "text");
  EXPECT_NE(
      text.find("  Ranks 0-2  host a; blocked in ncclSend on communicator pp (3 ranks) since"),
      std::string::npos)
      << text;
}

TEST(FindingsReport, RanksThatDidTheSameAreOneLine) {
  constexpr const char* kPipeline = R"(
ranks 0-7
communicator tp members=0-3
communicator pp_0 members=0,4
communicator pp_1 members=1,5
communicator pp_2 members=2,6
communicator pp_3 members=3,7
+1 0-3 calls ncclAllReduce on tp x20 @train.py:5:step
+2 1-3 enqueues ncclAllReduce on tp @train.py:5:step
+2.1 1-3 enters cudaStreamSynchronize @train.py:6:step
+2 0 polls cudaStreamQuery @data.py:4:next
+2 4 enqueues ncclRecv on pp_0 peer=0 @train.py:12:train
+2.1 5 enqueues ncclRecv on pp_1 peer=0 @train.py:12:train
+2.2 6 enqueues ncclRecv on pp_2 peer=0 @train.py:12:train
+2.3 7 enqueues ncclRecv on pp_3 peer=0 @train.py:12:train
end +60
)";
  const std::string evidence = first_evidence(kPipeline);
  EXPECT_NE(evidence.find("held up by it: ranks 4-7 wait in ncclRecv on 4 communicators (pp_0, "
                          "pp_1, pp_2, ..) since +2.000 s or later, for 58.0 s, called at "
                          "train.py:12 in train"),
            std::string::npos)
      << evidence;
  constexpr const char* kMissing = R"(
ranks 0-7
communicator dp members=0-7
+1 0-7 calls ncclAllReduce on dp x20 @train.py:5:step
+2 0-4 enqueues ncclAllReduce on dp @train.py:5:step
+2.1 5 enters cudaStreamSynchronize @train.py:9:step
+2.2 6-7 enters cudaStreamSynchronize @train.py:9:step
end +60
)";
  const std::string missing = first_evidence(kMissing);
  EXPECT_NE(missing.find("\"ranks 5-7 had entered #20 at "), std::string::npos) << missing;
  EXPECT_NE(missing.find("\"ranks 5-7 are inside cudaStreamSynchronize at train.py:9 in step, "
                         "since +2.100 s or later\""),
            std::string::npos)
      << missing;
}

// Not every source says when a process began: times count from the first that is known.
TEST(FindingsReport, ARunWithoutAStartBeginsWithWhatIsSeenFirst) {
  constexpr const char* kPeaks =
      "process 0 rank=0 world=1 alive=+9\n"
      "tensor-device 0 at=+2 allocated=5 reserved=5 peak-allocated=5 peak-reserved=5 peak-at=+1 "
      "allocations=1 change=5\n";
  const nlohmann::json json = nlohmann::json::parse(report(kPeaks, "json"));
  EXPECT_EQ(json["run"]["start_ns"], 1'700'000'001'000'000'000);
  EXPECT_NE(report(kPeaks, "text").find(", 8.00 s,"), std::string::npos);
}

// They are blocked no more.
TEST(FindingsReport, VictimsThatEndedAreSaidToHave) {
  const std::string text =
      report((std::string(kHang) + "+29 0,1,3 dies\n+29 2 dies\n").c_str(), "text");
  EXPECT_NE(text.find("Ranks 0, 1, 3  host a; are gone; were blocked in ncclAllReduce #12"),
            std::string::npos)
      << text;
}

TEST(FindingsReport, TheVerdictIsOfAnErrorBeforeAWarning) {
  Finding warning;
  warning.code = "memory.retained";
  warning.severity = Severity::kWarning;
  warning.root = true;
  warning.culprits = {{1}};
  Finding error;
  error.code = "collective.dead-rank";
  error.severity = Severity::kError;
  error.root = true;
  const std::vector<Finding> findings = {warning, error};
  EXPECT_EQ(leading(findings)->code, "collective.dead-rank");
  EXPECT_EQ(leading({findings.data(), findings.data() + 1})->code, "memory.retained");
}

TEST(FindingsReport, TracesThatWereNotGivenComeFirst) {
  const std::string text = report(R"(
ranks 0-1 world=8
fact source flight-recorder
fact operations-in-flight 1
communicator dp members=0-7
+1 0-1 calls ncclAllReduce on dp x11 @a.py:1:f
+2 0-1 enqueues ncclAllReduce on dp gpu=pending @a.py:1:f
end +183
)",
                                  "text");
  const size_t note = text.find("\n  Only 2 of 8 ranks are given");
  EXPECT_NE(note, std::string::npos) << text;
  EXPECT_LT(note, text.find("\n  Ranks 2-7  left no trace\n"));
  EXPECT_EQ(report(kHang, "text").find("ranks are given"), std::string::npos);
}

TEST(FindingsReport, AnotherProblemIsNamedUnderTheHeadline) {
  const std::string text = report(R"(
ranks 0-7
communicator left members=0-3
communicator right members=4-7
+1 0-3 calls ncclAllReduce on left x20 @a.py:1:f
+1 4-7 calls ncclAllReduce on right x20 @a.py:1:f
+2 0,1,3 enqueues ncclAllReduce on left @a.py:1:f
+2 2 polls cudaStreamQuery @a.py:7:g
+2 4,6,7 enqueues ncclAllReduce on right @a.py:1:f
+2 5 enqueues ncclAllReduce on right count=1000 @a.py:1:f
end +30
)",
                                  "text");
  const size_t note = text.find("\n  Another problem: ");
  EXPECT_NE(note, std::string::npos) << text;
  EXPECT_LT(note, text.find("\n  Rank "));
  EXPECT_EQ(report(kHang, "text").find("Another problem"), std::string::npos);
}

TEST(FindingsReport, TextHasTheCardThenLossesVerdictAndOneFindingALine) {
  const std::string text = report(kHang, "text");
  const size_t loss = text.find("lost: rank 2: 3 before-arming (warning; calls not recorded: ");
  const size_t verdict = text.find("\nverdict: likely: rank 2 never entered ncclAllReduce #12");
  const size_t finding =
      text.find("\nerror collective.missing-rank likely culprits=2 victims=0,1,3: rank 2 never");
  const size_t where = text.find("\n    where: rank 2: /job/<mining>.py:41 in hard_examples\n");
  EXPECT_EQ(text.find("HANG  rank 2 never entered ncclAllReduce #12"), 0) << text;
  EXPECT_LT(loss, verdict);
  EXPECT_LT(verdict, finding);
  EXPECT_LT(finding, where);
  EXPECT_NE(where, std::string::npos) << text;
  EXPECT_NE(text.find("ncclAllReduce of 1024 float32 (4096 bytes), sum"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(FindingsReport, HtmlSaysTheSameAndEscapesTheJobsNames) {
  const std::string html = report(kHang, "html");
  EXPECT_NE(html.find("<h1>likely: rank 2 never entered ncclAllReduce #12"), std::string::npos);
  EXPECT_NE(html.find("/job/&lt;mining&gt;.py:41 in hard_examples"), std::string::npos);
  EXPECT_EQ(html.find("<mining>"), std::string::npos);
  EXPECT_NE(html.find("/job/\\u003cmining>.py"), std::string::npos) << "in the data of the page";
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos) << "what it may load";
}

TEST(FindingsReport, OnlyTheCodesAskedFor) {
  AnalyzeOptions options;
  options.only = {"trace.lost-records"};
  const nlohmann::json json = nlohmann::json::parse(report(kHang, "json", options));
  ASSERT_EQ(json["findings"].size(), 1);
  EXPECT_EQ(json["findings"][0]["code"], "trace.lost-records");
}

TEST(FindingsReport, NamesThatAreNotUtf8AreStillJson) {
  const nlohmann::json json = nlohmann::json::parse(
      report("ranks 0-2\ncommunicator dp members=0-2\n+1 1-2 enqueues ncclAllReduce on dp\n"
             "+1 0 polls cudaStreamQuery \"@\\xff.py:3:f\"\nend +30\n",
             "json"));
  EXPECT_EQ(json["findings"][0]["where"][0]["line"], 3);
}

TEST(FindingsReport, UnknownRunNamesThoseThatThereAre) {
  AnalyzeOptions options;
  options.run.run = "other";
  EXPECT_EQ(report("run job7\nranks 0-1\n+1 0-1 calls cudaMalloc\n", "text", options),
            "there is no run 'other', but: job7");
}

TEST(FindingsReport, NoTraceAtAllIsNoRun) {
  EXPECT_FALSE(analyze_traces({}, {}));
}

TEST(FindingsReport, UnusableFilesAreFindings) {
  TraceSet traces = traces_of("ranks 0-1\n+1 0-1 calls cudaMalloc\n+2 0-1 exits\n");
  ReadError error;
  error.file = "folder/b.1.2.trace";
  error.message = "expected the magic of a trace";
  error.fatal = true;
  traces.errors.push_back(error);
  AnalyzeOptions options;
  options.format = "json";
  const Result<Analysis> analysis = analyze_traces(std::move(traces), options);
  ASSERT_TRUE(analysis);
  EXPECT_FALSE(analysis->error);
  const nlohmann::json json = nlohmann::json::parse(analysis->text);
  ASSERT_EQ(json["findings"].size(), 2);
  EXPECT_EQ(json["findings"][0]["code"], "run.healthy");
  EXPECT_EQ(json["findings"][0]["certainty"], "likely");
  EXPECT_EQ(json["findings"][1]["code"], "trace.corrupt");
  EXPECT_EQ(json["findings"][1]["evidence"][0],
            "not usable: b.1.2.trace: at 0: expected the magic of a trace");
}

}  // namespace
}  // namespace traintrace
