// uses: analyzer
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/detectors/support.h"
#include "analyzer/importers/logs/job/elastic_log.h"
#include "analyzer/importers/logs/testimony.h"
#include "analyzer/judge/judge.h"

namespace traintrace {
namespace {

struct Failed {
  const char* time;
  const char* host;
  int rank;
  int status;
  std::string traceback = "To enable traceback see: https://example.org/errors.html";
};

// As torchrun of PyTorch 1.9 to 2.9 prints it, once on each host.
std::string summary(const Failed& first, const std::vector<Failed>& others,
                    const std::string& before = "") {
  std::string text =
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
      "=====\ntrain.py FAILED\n-----\nFailures:\n";
  int number = 0;
  const auto add = [&](const Failed& failed) {
    text += fmt::format(
        "[{}]:\n  time      : {}\n  host      : {}\n  rank      : {} (local_rank: {})\n"
        "  exitcode  : {} (pid: {})\n  error_file: <N/A>\n  traceback : {}\n",
        number++, failed.time, failed.host, failed.rank, failed.rank % 8, failed.status,
        4000 + failed.rank, failed.traceback);
  };
  for (const Failed& failed : others) {
    add(failed);
  }
  text += others.empty() ? "  <NO_OTHER_FAILURES>\n-----\n" : "-----\n";
  text += "Root Cause (first observed failure):\n";
  add(first);
  text += "=====\n";
  std::string lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin) + 1;
    lines += before + text.substr(begin, end - begin);
    begin = end;
  }
  return lines;
}

// As ranks of PyTorch 2.4 and later print their exceptions.
std::string raised(int rank, const std::string& what) {
  return fmt::format(
      "[rank{0}]: Traceback (most recent call last):\n"
      "[rank{0}]:   File \"/w/train.py\", line 118, in <module>\n"
      "[rank{0}]:     else: main()\n"
      "[rank{0}]:   File \"/w/train.py\", line 77, in train_step\n"
      "[rank{0}]:     loss.backward()\n"
      "[rank{0}]:   File \"/usr/lib/python3/dist-packages/torch/_tensor.py\", line 525, in x\n"
      "[rank{0}]:     torch.autograd.backward(\n"
      "[rank{0}]: {1}\n",
      rank, what);
}

std::vector<std::string> concluded(const std::string& log) {
  EXPECT_TRUE(looks_like_elastic_log(log));
  return read_elastic_log(log, "job.log").conclusions;
}

TEST(ElasticLog, WhoFailedFirstAndWithWhat) {
  const std::string log =
      "step 1\n" + raised(3, "torch.OutOfMemoryError: CUDA out of memory.") +
      summary({"2024-08-26_15:02:11", "node-a", 3, 1}, {{"2024-08-26_15:02:12", "node-a", 0, -15}});
  EXPECT_EQ(concluded(log),
            (std::vector<std::string>{
                "rank 3 on node-a was the first that torchrun saw fail: exit code 1, "
                "torch.OutOfMemoryError: CUDA out of memory. at /w/train.py:77 in train_step"}));
  const std::vector<Witness> witnesses = read_elastic_log(log, "job.log").witnesses;
  ASSERT_EQ(witnesses.size(), 2U);
  EXPECT_EQ(witnesses[0].rank, 0);
  EXPECT_EQ(witnesses[0].says, "ended by SIGTERM at 2024-08-26_15:02:12, pid 4000 on node-a");
  EXPECT_EQ(witnesses[1].rank, 3);
}

// Each host's torchrun says who was first there.
TEST(ElasticLog, TheFirstOfSeveralHosts) {
  const std::string traceback =
      "Traceback (most recent call last):\n    File \"/w/train.py\", line 5, in f\n      g()\n"
      "  ValueError: bad batch";
  const std::vector<std::string> all =
      concluded(summary({"2025-05-21_15:43:07", "node-a", 0, -6}, {}, "0: ") +
                summary({"2025-05-21_15:43:03", "node-b", 9, 1, traceback}, {}, "1: "));
  EXPECT_EQ(all, (std::vector<std::string>{"rank 9 on node-b was the first that torchrun saw "
                                           "fail: exit code 1, ValueError: bad batch at "
                                           "/w/train.py:5 in f"}));
}

TEST(ElasticLog, SignalsAreNamedAndExplained) {
  const std::vector<std::string> killed =
      concluded(summary({"2025-05-21_15:43:03", "node-a", 0, -9}, {}));
  ASSERT_EQ(killed.size(), 2U);
  EXPECT_EQ(killed[0], "rank 0 on node-a was the first that torchrun saw fail: ended by SIGKILL");
  EXPECT_NE(killed[1].find("out of memory"), std::string::npos);
  // Who is aborted by its watchdog has waited: the cause is another.
  const std::vector<std::string> aborted =
      concluded(summary({"2025-05-21_15:43:03", "node-a", 0, -6}, {}));
  EXPECT_NE(aborted.at(1).find("look at the ranks that it waited for"), std::string::npos);
  EXPECT_EQ(concluded(summary({"2025-05-21_15:43:03", "node-a", 0, -31}, {})),
            (std::vector<std::string>{
                "rank 0 on node-a was the first that torchrun saw fail: ended by signal 31"}));
}

TEST(ElasticLog, ExceptionsWithoutASummary) {
  EXPECT_EQ(concluded(raised(3, "KeyboardInterrupt")),
            (std::vector<std::string>{"only rank 3 raised an exception: KeyboardInterrupt at "
                                      "/w/train.py:77 in train_step"}));
  const std::string again =
      raised(2, "ValueError: first") + raised(0, "RuntimeError: other") +
      "[rank2]: \n[rank2]: The above exception was the direct cause of the following exception:\n"
      "[rank2]: \n" +
      raised(2, "RuntimeError: because of the first");
  EXPECT_EQ(concluded(again),
            (std::vector<std::string>{"ranks 0,2 raised exceptions, the first in the file is rank "
                                      "2's: ValueError: first at /w/train.py:77 in train_step"}));
}

// torchrun starts the ranks again, and the log goes on.
TEST(ElasticLog, AnExceptionAfterARestartIsTheLatest) {
  const std::string twice = raised(2, "ValueError: first") + raised(2, "KeyError: 'label'");
  const std::vector<Witness> witnesses = read_elastic_log(twice, "job.log").witnesses;
  ASSERT_EQ(witnesses.size(), 1U);
  ASSERT_TRUE(witnesses[0].raised);
  EXPECT_EQ(witnesses[0].raised->text, "KeyError: 'label'");
  EXPECT_EQ(witnesses[0].raised->file, "/w/train.py");
  EXPECT_EQ(witnesses[0].raised->line, 77);
  EXPECT_EQ(witnesses[0].raised->function, "train_step");
  const std::string cut = raised(2, "ValueError: first") +
                          "[rank2]: Traceback (most recent call last):\n"
                          "[rank2]:   File \"/w/train.py\", line 5, in f\n";
  EXPECT_EQ(read_elastic_log(cut, "job.log").witnesses.at(0).raised->text, "ValueError: first");
}

TEST(ElasticLog, OtherLinesAreNone) {
  for (const std::string& text :
       {std::string(), std::string("Root Cause:\n[0]:\n  time : 1\n  rank : 0 (local_rank: 0)\n"),
        std::string("[rank0]: loss 3\n[rank1]: Traceback (most recent call last):\n"),
        std::string("[rank99999999999]: Traceback (most recent call last):\n[rank-1]: E: x\n"),
        std::string("rank      : 3 (local_rank: 3)\nexitcode  : 1 (pid: 3)\n")}) {
    const Testimony log = read_elastic_log(text, "job.log");
    EXPECT_TRUE(log.witnesses.empty()) << text;
    EXPECT_TRUE(log.conclusions.empty()) << text;
  }
}

TEST(ElasticLog, CutAnywhereItSaysNothingElse) {
  const std::string log =
      raised(3, "ValueError: x") + summary({"2024-08-26_15:02:11", "node-a", 3, 1}, {});
  for (size_t size = 0; size < log.size(); ++size) {
    for (const Witness& witness : read_elastic_log(log.substr(0, size), "job.log").witnesses) {
      EXPECT_EQ(witness.rank, 3) << size;
    }
  }
}

// The same rank in the lines of another tool is the same rank.
TEST(ElasticLog, AloneItIsEvidenceOfItsRanks) {
  const std::string log = summary({"2024-08-26_15:02:11", "node-a", 1, 1}, {});
  Witness other;
  other.host = "node-a";
  other.pid = 4001;
  other.local_rank = 1;
  other.size = 2;
  other.says = "warned first: x";
  const std::vector<Testimony> all = {read_elastic_log(log, "job.log"),
                                      {"job.log", "NCCL's log", {other}}};
  EXPECT_EQ(processes_of(all).size(), 1U);
  const Result<JudgedRun> judged = judge(processes_of(all), {}, {});
  ASSERT_TRUE(judged) << judged.error().message;
  const Finding finding = supported_finding(all);
  EXPECT_EQ(finding.title,
            "rank 1 on node-a was the first that torchrun saw fail: exit code 1, says the job's "
            "log; there is no trace of this job that says more");
  EXPECT_EQ(finding.evidence, (std::vector<std::string>{
                                  "rank 1: exit code 1 at 2024-08-26_15:02:11, pid 4001 on node-a",
                                  "rank 1: warned first: x"}));
}

}  // namespace
}  // namespace traintrace
