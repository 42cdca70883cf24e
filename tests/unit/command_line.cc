// uses: analyzer
// needs: traintrace traintrace_preload
// The command as a person types it: what goes where, and with which status.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "tests/unit/trace_builder.h"

namespace traintrace {
namespace {

using testing::enter;
using testing::leave;
using testing::TraceBuilder;

namespace fs = std::filesystem;

struct Said {
  int status = -1;
  std::string out, err;
};

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class CommandLine : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/command_line.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    const fs::path tests = fs::read_symlink("/proc/self/exe").parent_path();
    program_ = (tests.parent_path() / "bin" / "traintrace").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  // In the test's own folder.
  Said traintrace(const std::string& arguments) const {
    const std::string command =
        "cd " + folder_ + " && { " + program_ + " " + arguments + "\n} >.out 2>.err";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 256, content_of(folder_ + "/.out"),
            content_of(folder_ + "/.err")};
  }
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories(fs::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
  }
  // Nothing on stdout, one line on stderr, status 2.
  void expect_refused(const std::string& arguments, const std::string& line) const {
    const Said said = traintrace(arguments);
    EXPECT_EQ(said.status, 2) << arguments;
    EXPECT_EQ(said.out, "") << arguments;
    EXPECT_EQ(said.err, "traintrace: " + line + "\n") << arguments;
  }

  std::string folder_;
  std::string program_;
};

// `--only=CODE TRACE`: what follows a value is no other value of it.
TEST_F(CommandLine, OptionsWithSeveralValuesTakeThemBetweenCommas) {
  write("run.txt", "ranks 0\n+1 0 calls cudaLaunchKernel x20 every=10ms\n+2 0 exits status=0\n");
  const Said only = traintrace("analyze --only=latency.pause,run.healthy run.txt");
  EXPECT_EQ(only.status, 0) << only.err;
  EXPECT_NE(only.out.find("info run.healthy"), std::string::npos) << only.out;
  const Said columns = traintrace("report --columns=count,call run.txt --by=call");
  EXPECT_EQ(columns.status, 0) << columns.err;
  EXPECT_NE(columns.out.find("cudaLaunchKernel"), std::string::npos) << columns.out;
}

TEST_F(CommandLine, UnknownNamesAreRefusedWithTheNearestOne) {
  expect_refused("analyse x", "there is no command 'analyse'; did you mean analyze?");
  expect_refused("dump --rnk=3", "dump has no option --rnk; did you mean --rank?");
  expect_refused("run --moed=ring ls", "run has no option --moed; did you mean --mode?");
  expect_refused("run --mode=rign ls", "--mode=rign is none of ring|full; did you mean ring?");
  expect_refused("run --dir=x ls", "run has no option --dir; did you mean --out?");
  expect_refused("run --ring_mb=4 ls", "run has no option --ring_mb; did you mean --ring-mb?");
  expect_refused("run --ring-mb=0 ls", "--ring-mb=0 is not a number from 1 to 65536");
  expect_refused("findings run.helthy",
                 "no finding has the code run.helthy; did you mean run.healthy?");
  expect_refused("diff run.txt", "diff needs TRACE_B; see `traintrace help diff`");
  expect_refused("help dmup", "there is no command 'dmup'; did you mean dump?");
  expect_refused("analyze --only=run.helthy x",
                 "no finding has the code run.helthy; did you mean run.healthy?");
  expect_refused("analyze --hang-after=soon x", "--hang-after=soon: write a time as 5s or 500ms");
  expect_refused("dump --rank=x docs", "docs: cannot be opened: No such file or directory");
  expect_refused("attach 4194305", "/proc/4194305/stat: there is no process with this number");
  expect_refused("attach 99999999999", "99999999999: there is no process with this number");
  expect_refused("attach 0", "0: there is no process with this number");
  expect_refused("run", "run needs a program: traintrace run [--out=DIR] -- PROGRAM ARG...");
  expect_refused("", "no command given; see `traintrace help`");
}

TEST_F(CommandLine, HelpGoesToStdout) {
  for (const char* arguments : {"help", "help dump", "--help", "dump --help", "--version",
                                "settings", "calls", "findings", "findings run.healthy"}) {
    const Said said = traintrace(arguments);
    EXPECT_EQ(said.status, 0) << arguments;
    EXPECT_EQ(said.err, "") << arguments;
    EXPECT_NE(said.out, "") << arguments;
  }
  EXPECT_NE(traintrace("help dump").out.find("--since"), std::string::npos);
  for (const char* arguments : {"help", "--help"}) {
    const std::string help = traintrace(arguments).out;
    EXPECT_NE(help.find("\nExamples:\n  traintrace run -- "), std::string::npos) << help;
    EXPECT_NE(help.find("\nExit status: 0 on success"), std::string::npos) << help;
  }
}

// Lines fit, a value is named by what it is and not by its type, and no group is empty.
void expect_tidy(const std::string& help) {
  constexpr size_t kWidest = 100;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), kWidest) << line;
  }
  EXPECT_EQ(help.find("TEXT"), std::string::npos) << help;
  EXPECT_EQ(help.find("\n\n\n"), std::string::npos) << help;
}

// Every command is shown in use, with what its status means.
TEST_F(CommandLine, HelpHasExamplesAndExitStatus) {
  std::istringstream lines(traintrace("help").out);
  std::string manual = traintrace("help --man").out;
  int commands = 0;
  bool listed = false;
  for (std::string line; std::getline(lines, line) && !(listed && line.empty());) {
    if (listed) {
      const std::string command = line.substr(2, line.find(' ', 2) - 2);
      const std::string help = traintrace("help " + command).out;
      const size_t examples = help.find("Examples:\n");
      EXPECT_NE(help.find("traintrace " + command + " ", examples), std::string::npos) << help;
      EXPECT_EQ(help.find("Examples:\n", examples + 1), std::string::npos) << help;
      EXPECT_NE(help.find("Exit status: "), std::string::npos) << help;
      expect_tidy(help);
      ++commands;
    }
    listed = listed || line == "Commands";
  }
  EXPECT_GT(commands, 10);
  EXPECT_NE(manual.find("traintrace findings \\-\\-thresholds"), std::string::npos);
  EXPECT_NE(manual.find(".B collective.missing\\-rank"), std::string::npos);
  EXPECT_EQ(manual.find("traintrace inject"), std::string::npos) << "not built";
}

TEST_F(CommandLine, WordsThatPeopleTryFirst) {
  EXPECT_EQ(traintrace("-V").out, traintrace("--version").out);
  EXPECT_EQ(traintrace("version").out, traintrace("--version").out);
  EXPECT_EQ(traintrace("--color=never version").out, traintrace("--version").out);
  expect_refused("recrod", "there is no command 'recrod'; did you mean record?");
  const std::string one = traintrace("settings TRAINTRACE_MODE").out;
  EXPECT_TRUE(one.starts_with("TRAINTRACE_MODE=")) << one;
  EXPECT_EQ(one.find("TRAINTRACE_RING_MB"), std::string::npos);
  EXPECT_EQ(traintrace("settings mode").out, one);
  expect_refused("attach --format=jsno",
                 "--format=jsno is none of text, json, html, collapsed; did you mean json?");
  expect_refused("analyze --color=purple", "--color=purple is none of auto, always, never");
  expect_refused("analyze --output", "--output needs a value");
  expect_refused("settings TRAINTRACE_MOED",
                 "there is no setting 'TRAINTRACE_MOED'; did you mean TRAINTRACE_MODE?");
}

TEST_F(CommandLine, FindingsAreExplainedAndSearched) {
  const std::string one = traintrace("findings collective.missing-rank").out;
  for (const char* section : {"When it is reported", "Usual causes", "How to confirm", "How to fix",
                              "Example", "Values in --format=json", "Numbers that decide",
                              "  hang-after           5 s", "Related"}) {
    EXPECT_NE(one.find(section), std::string::npos) << section;
  }
  const std::string several = traintrace("findings OOM").out;
  EXPECT_NE(several.find("run.oom-then-hang"), std::string::npos);
  EXPECT_EQ(several.find("run.healthy"), std::string::npos);
  EXPECT_EQ(several.find("device.not-resident"), std::string::npos) << "room";
  expect_refused("findings blue-moon", "no finding mentions 'blue-moon'");
  EXPECT_NE(traintrace("findings --thresholds").out.find("\n  dead-after "), std::string::npos);
  const auto document =
      nlohmann::json::parse(traintrace("findings --thresholds --format=json").out, nullptr, false);
  ASSERT_FALSE(document.is_discarded());
  EXPECT_EQ(document.at("thresholds").at(0).at("name"), "hang-after");
  EXPECT_EQ(document.at("thresholds").at(0).at("value"), 5e9);
}

TEST_F(CommandLine, BashCompletesCommandsOptionsAndValues) {
  const auto completed = [&](const std::string& line, int words) {
    return traintrace("help --bash-completion > c; bash -c '. ./c; COMP_WORDS=(" + line +
                      "); COMP_CWORD=" + std::to_string(words) +
                      "; _traintrace; echo ${COMPREPLY[*]}'")
        .out;
  };
  EXPECT_EQ(completed("traintrace an", 1), "analyze\n");
  EXPECT_EQ(completed("traintrace dump --s", 2), "--since\n");
  EXPECT_EQ(completed("traintrace dump x", 2), "\n") << "files, which bash knows by itself";
  EXPECT_EQ(completed("traintrace report --by = st", 4), "stream stack step\n");
  EXPECT_EQ(completed("traintrace findings run.he", 2), "run.healthy\n");
  EXPECT_EQ(completed("traintrace export perf", 2), "perfetto\n");
  EXPECT_EQ(completed("traintrace analyze --format = j", 4), "json\n") << "as bash splits words";
  EXPECT_EQ(completed("traintrace analyze --format =", 3), "text json html\n");
  EXPECT_EQ(completed("traintrace analyze --format h", 3), "html\n");
  EXPECT_EQ(completed("traintrace run --mode = f", 4), "full\n");
  EXPECT_EQ(completed("traintrace export per", 2), "perfetto\n");
  EXPECT_EQ(completed("traintrace findings collective.skip", 2), "collective.skipped-call\n");
  EXPECT_EQ(completed("traintrace help ana", 2), "analyze\n");
  EXPECT_EQ(completed("traintrace analyze --only = run.healthy,run.in", 4),
            "run.healthy,run.in-progress\n");
  EXPECT_EQ(completed("traintrace analyze -", 2).substr(0, 3), "-h ");
}

// What the shells themselves make of them is tested by tests/collect, where they are installed.
TEST_F(CommandLine, ZshAndFishCompleteValues) {
  const std::string zsh = traintrace("help --zsh-completion").out;
  for (const char* text :
       {"#compdef traintrace\n", "'analyze:find what went wrong",
        "'--format=[output format]:value:(text json html)'", "'--mpi[under mpirun or srun",
        "'1:value:(perfetto kineto", "]:value:_files -/'", "]:value:_values -s , value collective.",
        "'-o+[write"}) {
    EXPECT_NE(zsh.find(text), std::string::npos) << text << zsh;
  }
  const std::string fish = traintrace("help --fish-completion").out;
  for (const char* text :
       {"complete -c traintrace -f -n __fish_use_subcommand -a analyze -d 'find what went wrong",
        "from analyze' -l format -x -a 'text json html' -d 'output format'",
        "from collect' -l to -x -a '(__fish_complete_directories)' -d ",
        "from analyze' -s o -l output -r -d ", "from analyze' -l hang-after -x -d ",
        "from analyze' -l mpi -d "}) {
    EXPECT_NE(fish.find(text), std::string::npos) << text << fish;
  }
}

TEST_F(CommandLine, TheManualHasEveryCommandAndSetting) {
  const std::string manual = traintrace("help --man").out;
  for (const char* text :
       {".B traintrace analyze [TRACE]", "\\-\\-hang\\-after=TIME", "\\-\\-format=text|json|html",
        "\\-o, \\-\\-output=FILE", "\\-\\-mode=ring|full", ".B KIND", "TRAINTRACE_RING_MB=1..65536",
        "\n.SH EXAMPLES\n"}) {
    EXPECT_NE(manual.find(text), std::string::npos) << text << manual;
  }
}

TEST_F(CommandLine, ATraceAndThePointerToItAreOneProcess) {
  write("local/a.trace", TraceBuilder().build());
  char host[65] = {};
  gethostname(host, sizeof host - 1);
  write("t/a.pointer", "traintrace-pointer 1\n" + folder_ + "/local/a.trace\n" + host + "\n");
  const std::string out = traintrace("dump t " + folder_ + "/local").out;
  EXPECT_NE(out.find("\nprocess "), std::string::npos);
  EXPECT_EQ(out.find("\nprocess "), out.rfind("\nprocess "));
}

TEST_F(CommandLine, ListsAreJsonToo) {
  for (const char* command : {"calls", "settings", "findings"}) {
    const Said said = traintrace(std::string(command) + " --format=json");
    const auto document = nlohmann::json::parse(said.out, nullptr, false);
    ASSERT_FALSE(document.is_discarded()) << said.out;
    EXPECT_FALSE(document.at(command).empty());
  }
}

TEST_F(CommandLine, TheDefaultIsTheFolderTraintrace) {
  EXPECT_EQ(traintrace("dump").status, 2);
  TraceBuilder builder;
  builder.add_thread(1, 2);
  builder.add_chunk(1, 1, 0, {enter(9, 10), leave(9, 11)});
  write("traintrace/node-a.4242.77.trace", builder.build());
  write("traintrace/notes.txt", "not a trace, and not looked at");
  const Said said = traintrace("dump");
  EXPECT_EQ(said.status, 0);
  EXPECT_EQ(said.err, "");
  EXPECT_NE(said.out.find("+0.010000000 node-a:4242/1 > ncclGroupStart"), std::string::npos)
      << said.out;
}

TEST_F(CommandLine, DumpKeepsWhatWasAskedFor) {
  TraceBuilder builder;
  builder.add_thread(1, 6);
  builder.add_chunk(1, 1, 0,
                    {enter(9, 10), leave(9, 11), enter(3, 20, {64}), leave(3, 21),
                     enter(3, 30, {65}), leave(3, 31)});
  builder.add_definition(format::FactDefinition{{}, 8, 1}, format::kFact, "env.RANK3");
  write("t/a.trace", builder.build());
  const auto calls = [&](const std::string& options) {
    const std::string out = traintrace("dump t " + options).out;
    std::string kept;
    for (size_t at = 0; (at = out.find(" > ", at)) != out.npos; ++at) {
      const size_t end = out.find(" on-device", at);
      kept += out.substr(at + 3, end - at - 3) + ";";
    }
    return kept;
  };
  EXPECT_EQ(calls(""), "ncclGroupStart;cudaMalloc bytes=64;cudaMalloc bytes=65;");
  EXPECT_EQ(calls("--call='cuda*' --until=+25ms"), "cudaMalloc bytes=64;");
  EXPECT_EQ(calls("--since=+0.025"), "cudaMalloc bytes=65;");
  EXPECT_EQ(calls("--limit=1"), "ncclGroupStart;");
  EXPECT_EQ(calls("--rank=0-2"), "");
  EXPECT_EQ(calls("--rank=3 --no-tables"),
            "ncclGroupStart;cudaMalloc bytes=64;cudaMalloc bytes=65;");
}

TEST_F(CommandLine, OneBadFileDoesNotHideTheOthers) {
  TraceBuilder builder;
  write("t/good.trace", builder.build());
  write("t/bad.trace", "nonsense");
  const Said said = traintrace("dump t");
  EXPECT_EQ(said.status, 0);
  EXPECT_EQ(said.err,
            "traintrace: t/bad.trace: neither a trace nor the text of `traintrace dump`\n");
  EXPECT_NE(said.out.find("process node-a:4242"), std::string::npos);
}

// What is evidence beside traces is nothing to show alone; a silent failure would be none to act
// on.
TEST_F(CommandLine, ALogAloneIsForAnalyze) {
  write("job.log", "h:4001:5001 [1] NCCL WARN NET/IB : got completion with error 12\n");
  EXPECT_EQ(traintrace("analyze job.log").status, 0);
  for (const char* command :
       {"report job.log", "report --by=call job.log", "report --by=range job.log", "dump job.log",
        "export csv job.log --output=out", "export perfetto job.log --output=out",
        "export kineto job.log --output=out", "export torch-snapshot job.log --output=out",
        "import flight-recorder job.log --out=out", "diff job.log job.log"}) {
    const Said said = traintrace(command);
    EXPECT_EQ(said.status, 2) << command;
    EXPECT_TRUE(
        said.err.starts_with("traintrace: job.log: a log or a status, which only "
                             "`traintrace analyze` reads alone"))
        << command << ": " << said.err;
    EXPECT_FALSE(fs::exists(folder_ + "/out")) << command;
  }
}

TEST_F(CommandLine, AProfileWithoutGpuWorkIsToldAsSuch) {
  write("none.json", R"({"schemaVersion": 1, "traceEvents": []})");
  write("cpu.json", R"({"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]})");
  for (const char* command : {"analyze ", "report ", "report --by=call "}) {
    EXPECT_EQ(traintrace(command + std::string("none.json")).err,
              "traintrace: none.json: expected kernels or copies of a GPU: there are none\n");
    EXPECT_NE(traintrace(command + std::string("cpu.json"))
                  .err.find("cpu.json: a profile of the CPU alone: "),
              std::string::npos)
        << command;
  }
}

// Its process was killed at once: nothing is lost, and the ranks that are there are judged as sure.
TEST_F(CommandLine, ATraceThatIsNotBegunIsNoDamage) {
  const std::string why = "not begun: the process ended, or is, while its trace is set up";
  write("t/run.trace",
        "ranks 0 world=2\n"
        "+1 0 calls cudaMalloc bytes=10\n"
        "+2 0 calls cudaFree\n"
        "+3 0 exits\n");
  write("t/b.4343.77.trace", std::string(10'000, '\0'));
  const auto answer = nlohmann::json::parse(traintrace("analyze t --format=json").out);
  std::string said;
  for (const auto& finding : answer.at("findings")) {
    EXPECT_NE(finding.at("code"), "trace.corrupt");
    said += finding.at("code") == "trace.missing-rank" ? finding.at("evidence").dump() : "";
  }
  EXPECT_NE(said.find("b.4343.77.trace: " + why), std::string::npos) << answer.dump();
  expect_refused("analyze t/b.4343.77.trace", "t/b.4343.77.trace: " + why);
}

TEST_F(CommandLine, RunsOfOneMillisecondHaveNamesOfTheirOwn) {
  for (int i = 1; i <= 4; ++i) {
    write(fmt::format("t/{}.txt", i),
          fmt::format("start 1763500000\nprocess b:{0} host=b pid={0} start-time=7 armed=+0 "
                      "alive=+1 exit=exit exited=+1.1\n",
                      i));
  }
  const auto run = nlohmann::json::parse(traintrace("analyze t --format=json").out).at("run");
  std::set<std::string> ids = {run.at("id")};
  for (const auto& other : run.at("other_runs")) {
    ids.insert(other.at("id"));
  }
  EXPECT_EQ(ids.size(), 4U) << run.dump();
  for (const std::string& id : ids) {
    const auto chosen =
        nlohmann::json::parse(traintrace("analyze t --format=json --run=" + id).out);
    EXPECT_EQ(chosen.at("run").at("id"), id);
  }
}

TEST_F(CommandLine, ANewerRunWithoutErrorIsToldBesideAnOlderHang) {
  const std::string job =
      "ranks 0-2\ncommunicator dp members=0-2\n+1 0-2 calls ncclAllReduce on dp\n";
  const std::string note = "This is an older run. A newer one has no error: --run=second\n";
  const std::string ends = "+9 0-2 exits\n";
  const std::string hangs = "+2 0,1 enters ncclAllReduce on dp\nend +40\n";
  const auto told = [&](const std::string& first, const std::string& second) {
    write("t/1.trace", "start 1763500000\nrun first\n" + job + first);
    write("t/2.trace", "start 1763600000\nrun second\n" + job + second);
    return traintrace("analyze t");
  };
  const Said said = told(hangs, ends);
  EXPECT_EQ(said.status, 1) << said.out << said.err;
  EXPECT_NE(said.out.find(note), std::string::npos) << said.out;
  EXPECT_EQ(told(ends, hangs).out.find(note), std::string::npos);
  EXPECT_EQ(told(hangs, hangs).out.find(note), std::string::npos);
  EXPECT_EQ(told(ends, ends).out.find(note), std::string::npos);
}

TEST_F(CommandLine, WhatIsNotDoneYetHasNotFailed) {
  write("run.txt",
        "ranks 0\n"
        "+1 0 calls cudaStreamQuery x5 =cudaErrorNotReady\n"
        "+2 0 calls cudaStreamQuery =cudaErrorIllegalAddress\n"
        "+3 0 calls cuStreamQuery x2 =CUDA_ERROR_NOT_READY\n"
        "+4 0 calls ncclCommDestroy =ncclInProgress\n"
        "+5 0 calls ncclCommAbort =ncclSystemError\n");
  const auto report = nlohmann::json::parse(traintrace("report run.txt --format=json").out);
  std::map<std::string, int> failed;
  for (const auto& row : report.at("rows")) {
    failed[row.at("call")] = row.at("failed_count");
  }
  EXPECT_EQ(failed, (std::map<std::string, int>{{"cudaStreamQuery", 1},
                                                {"cuStreamQuery", 0},
                                                {"ncclCommDestroy", 0},
                                                {"ncclCommAbort", 1}}));
}

// Neither has a record of its end: what a rank of a hang does must not look like next to nothing.
TEST_F(CommandLine, ReportsCallsThatAreOpenOrPolled) {
  write("hang.txt",
        "ranks 0-1\n"
        "communicator dp members=0-1\n"
        "+1 0-1 calls ncclAllReduce on dp x2\n"
        "+2 0 enters cudaStreamSynchronize\n"
        "+2 1 polls cudaStreamQuery\n"
        "end +30\n");
  const auto report = nlohmann::json::parse(traintrace("report hang.txt --format=json").out);
  EXPECT_EQ(report.at("rows").at(0).at("call"), "cudaStreamSynchronize");
  EXPECT_GE(report.at("rows").at(0).at("open_ns"), 27'000'000'000)
      << "most time, though none is over";
  for (const auto& row : report.at("rows")) {
    if (row.at("call") == "cudaStreamQuery") {
      EXPECT_GT(row.at("count"), 1000) << "polling is counted";
    }
  }
}

TEST_F(CommandLine, ReportsAddUpInEveryForm) {
  write("run.txt",
        "ranks 0-1\n"
        "+1 0-1 calls cudaMalloc x3 bytes=10 takes=2ms @a.py:1:f\n"
        "+2 0 calls cudaMalloc bytes=7 takes=1ms =cudaErrorMemoryAllocation @b.py:2:g\n"
        "+3 1 enters cudaDeviceSynchronize\n");
  const auto by_call = nlohmann::json::parse(traintrace("report run.txt --format=json").out);
  EXPECT_EQ(by_call.at("schema"), "traintrace.report/1");
  EXPECT_EQ(
      by_call.at("rows").at(0),
      nlohmann::json::parse(R"({"call":"cudaMalloc","library":"runtime","kind":"alloc","count":7,
              "failed_count":1,"open_count":0,"open_ns":null,"host_ns":13000000,"mean_ns":1857142,"max_ns":2000000,"bytes":67,
              "idle_ns":null})"));
  EXPECT_EQ(by_call.at("rows").at(1).at("open_count"), 1);
  EXPECT_EQ(by_call.at("rows").at(1).at("open_ns"), 10000) << "until the process was last heard of";
  EXPECT_TRUE(by_call.at("rows").at(1).at("bytes").is_null());
  const auto by_stack =
      nlohmann::json::parse(traintrace("report run.txt --by=stack --format=json").out);
  ASSERT_EQ(by_stack.at("rows").size(), 2u);
  EXPECT_EQ(by_stack.at("rows").at(0).at("count"), 6) << "the same stack on both ranks";
  EXPECT_EQ(by_stack.at("rows").at(0).at("stack").at(0), "f at a.py:1");
  EXPECT_EQ(traintrace("report run.txt --format=csv").out,
            "call,library,kind,count,failed_count,open_count,open_ns,host_ns,mean_ns,max_ns,bytes,"
            "idle_ns\n"
            "cudaMalloc,runtime,alloc,7,1,0,,13000000,1857142,2000000,67,\n"
            "cudaDeviceSynchronize,runtime,sync,1,0,1,10000,,,,,\n");
  EXPECT_NE(traintrace("report run.txt --by=stack").out.find("\n    f at a.py:1\n"),
            std::string::npos);
}

// A trace cannot be made again.
TEST_F(CommandLine, NoOutputReplacesAnInput) {
  const std::string text =
      "ranks 0\n+1 0 calls cudaLaunchKernel x20 every=10ms\n+2 0 exits status=0\n";
  write("run.txt", text);
  write("runs/0.trace", text);
  fs::create_symlink("run.txt", folder_ + "/link");
  fs::create_hard_link(folder_ + "/run.txt", folder_ + "/name");
  for (const std::string output : {"run.txt", "link", "name"}) {
    for (const char* const command : {"analyze", "report --by=call", "export csv"}) {
      expect_refused(std::string(command) + " run.txt --output=" + output,
                     "cannot write " + output + ": it is one of the inputs");
    }
  }
  expect_refused("export perfetto runs --output=runs/0.trace",
                 "cannot write runs/0.trace: it is one of the inputs");
  EXPECT_EQ(content_of(folder_ + "/run.txt"), text);
  EXPECT_EQ(content_of(folder_ + "/runs/0.trace"), text);
  // What was written beside the inputs is no input, and may be written again.
  for (const char* const form : {"text", "json", "html", "text", "json", "html"}) {
    const std::string again =
        std::string("analyze runs --format=") + form + " --output=runs/report." + form;
    EXPECT_EQ(traintrace(again).err, "") << again;
  }
}

TEST_F(CommandLine, WhatIsWrongIsSaidInOneShortLine) {
  write("none.txt", "# a text in which no process is\n");
  for (const char* const command : {"dump", "report --by=stack", "export collapsed -o -"}) {
    expect_refused(std::string(command) + " none.txt",
                   "none.txt: expected at least one process: there is none");
  }
  write("long.txt", std::string(1'000'000, '['));
  const Said said = traintrace("analyze long.txt");
  EXPECT_EQ(said.status, 2);
  EXPECT_LT(said.err.size(), 400U) << said.err.substr(0, 1000);
}

TEST_F(CommandLine, KernelsAreNamedByExpressionsThatAreBounded) {
  write("run.txt", "ranks 0\n+1 0 exits status=0\n");
  const std::string option = "analyze run.txt --communication-kernels=";
  const std::string wrong = "--communication-kernels: ";
  expect_refused(option + "@/dev/zero",
                 wrong + "/dev/zero: expected a regular file, found a device");
  expect_refused(option + "'a('", wrong + "expected a regular expression: missing ): a(");
  expect_refused(option + "'" + std::string(20000, '(') + "'",
                 wrong + "expected a regular expression: expected at most 4096 bytes");
  write("table", "# ours\nfu.*\n*\n");
  expect_refused(option + "@table",
                 wrong +
                     "table, line 3: expected a regular expression: no argument for repetition "
                     "operator: *");
}

TEST_F(CommandLine, AFullDiskUnderStdoutIsNotSilent) {
  write("t/a.trace", TraceBuilder().build());
  const int status =
      std::system(("cd " + folder_ + " && " + program_ + " dump t >/dev/full 2>.err").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_EQ(content_of(folder_ + "/.err"),
            "traintrace: cannot write to stdout: No space left on device\n");
}

// The preload of a sanitizer build works in no program but those that were built with it.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(CommandLine, AFileThatMayNotGrowLeavesNothing) {
  write("run.txt", "ranks 0\n+1 0 calls cudaLaunchKernel x2000 every=10ms\n+2 0 exits status=0\n");
  const std::string command = "ulimit -f 10; cd " + folder_ + " && " + program_ +
                              " export csv run.txt --output=run.csv 2>.err";
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << status;
  EXPECT_NE(content_of(folder_ + "/.err").find("cannot write run.csv: File too large"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ + "/run.csv"));
  EXPECT_FALSE(fs::exists(folder_ + "/run.csv.part"));
}

TEST_F(CommandLine, RunReturnsThePrograms) {
  EXPECT_EQ(traintrace("run true").status, 0);
  EXPECT_EQ(traintrace("record --out=t true").status, 0);
  EXPECT_EQ(traintrace("run -- sh -c 'exit 7'").status, 7);
  EXPECT_EQ(traintrace("run sh -c 'kill -9 $$'").status, 137);
  EXPECT_EQ(traintrace("run sh -c 'echo x; echo y >&2'").out, "x\n");
  const Said missing = traintrace("run ./nothing");
  EXPECT_EQ(missing.status, 127);
  EXPECT_EQ(missing.err, "traintrace: cannot run ./nothing: No such file or directory\n");
}

TEST_F(CommandLine, RunSetsTheTracerAndItsSettings) {
  const Said said = traintrace(
      "run --out=o --ring-mb=7 -- sh -c 'echo $LD_PRELOAD $TRAINTRACE_DIR $TRAINTRACE_RING_MB $0' "
      "-- --mode=x");
  EXPECT_EQ(
      said.err.find(
          "traintrace: nothing recorded in o: no process used CUDA or NCCL, or those that did "),
      0U)
      << said.err;
  EXPECT_NE(said.out.find("libtraintrace.so " + folder_ + "/o 7 --\n"), std::string::npos)
      << said.out;
}

TEST_F(CommandLine, RunPreloadsTheTracerAfterOthers) {
  const Said said = traintrace("run env LD_PRELOAD=libm.so.6 ASAN_OPTIONS=a=1 " + program_ +
                               " run sh -c 'echo $LD_PRELOAD; echo $ASAN_OPTIONS'");
  EXPECT_EQ(said.out.find("libm.so.6:/"), 0U) << said.out;
  EXPECT_NE(said.out.find("libtraintrace.so\na=1:verify_asan_link_order=0\n"), std::string::npos)
      << said.out;
}

TEST_F(CommandLine, RunHandsSignalsOn) {
  // The program ends by itself only after a minute.
  const Said said = traintrace(
      "run sh -c 'trap \"echo caught; exit 5\" TERM; echo ready >ready; sleep 60 & wait' & "
      "n=0; while [ ! -s ready ] && [ $n -lt 1000 ]; do n=$((n+1)); sleep 0.02; done; kill -TERM "
      "$!; wait $!");
  EXPECT_EQ(said.status, 5);
}
#endif

}  // namespace
}  // namespace traintrace
