// uses: analyzer
// The text form of traces: what is printed can be read back, and what docs/dump.md shows is so.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "analyzer/text/dump_parser.h"
#include "analyzer/text/dump_printer.h"

namespace traintrace {
namespace {

std::string printed(const std::vector<ProcessTrace>& processes) {
  std::string text;
  print_dump(processes, {}, [&](std::string_view part) { text += part; });
  return text;
}

// Fails the test if it cannot be parsed.
DumpText parsed(const std::string& text) {
  Result<DumpText> dump = parse_dump(text, "test");
  if (!dump) {
    ADD_FAILURE() << dump.error().offset << ": " << dump.error().message << "\n" << text;
    return {};
  }
  return *dump;
}

std::string complaint(const std::string& text) {
  const Result<DumpText> dump = parse_dump(text, "test");
  return dump ? "none" : std::to_string(dump.error().offset) + ": " + dump.error().message;
}

std::vector<std::string> examples_of_documentation() {
  std::ifstream file("docs/dump.md");
  std::vector<std::string> examples;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "```dump") {
      examples.emplace_back();
      inside = true;
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      examples.back() += line + "\n";
    }
  }
  return examples;
}

TEST(DumpText, EveryExampleOfTheDocumentationIsUnderstood) {
  const auto examples = examples_of_documentation();
  ASSERT_GE(examples.size(), 2u);
  for (const std::string& example : examples) {
    const DumpText dump = parsed(example);
    EXPECT_FALSE(dump.processes.empty());
  }
}

TEST(DumpText, PrintingIsLossless) {
  for (const std::string& example : examples_of_documentation()) {
    const std::string once = printed(parsed(example).processes);
    EXPECT_EQ(once, printed(parsed(once).processes));
  }
}

TEST(DumpText, RecordsOfTheDocumentationArePrintedAsTheyStandThere) {
  const std::string example = examples_of_documentation().at(1);
  EXPECT_EQ(printed(parsed(example).processes), example);
}

TEST(DumpText, AStoryOfAHangFillsTheTables) {
  const DumpText dump = parsed(examples_of_documentation().at(0));
  ASSERT_EQ(dump.processes.size(), 4u);
  const ProcessTrace& waiting = dump.processes[0];
  const ProcessTrace& missing = dump.processes[2];
  EXPECT_EQ(waiting.facts.at("env.WORLD_SIZE"), "4");
  ASSERT_EQ(waiting.communicators.size(), 1u);
  EXPECT_EQ(waiting.communicators[0].collectives, 812u);
  EXPECT_EQ(missing.communicators[0].collectives, 811u);
  EXPECT_EQ(waiting.communicators[0].id, missing.communicators[0].id);
  EXPECT_NE(waiting.communicators[0].hash, missing.communicators[0].hash);
  EXPECT_EQ(waiting.communicators[0].checkpoints.size(), 3u);
  EXPECT_EQ(waiting.communicators[0].checkpoints[2].sequence, 768u);
  EXPECT_EQ(waiting.communicators[0].recent.size(), format::kRecentOperations);
  EXPECT_EQ(waiting.communicators[0].recent.back().sequence, 812u);
  EXPECT_EQ(waiting.streams[0].issued, 812u);
  EXPECT_EQ(waiting.streams[0].completed, 811u);
  EXPECT_EQ(missing.last_alive, dump.start + 83'000'000'000);
  const ThreadText& thread = missing.threads.at(0);
  EXPECT_EQ(missing.calls[*thread.last_call].name, "cudaStreamQuery");
  EXPECT_EQ(thread.last_query_time, missing.last_alive);
  EXPECT_EQ(missing.stacks.at(thread.last_stack).python.at(0).file, "mining.py");
}

TEST(DumpText, CallsNestAndLostPartsAreKept) {
  const std::string text =
      "start 1700000000.000000000\n"
      "process a:5 host=a pid=5 armed=+0.000000000\n"
      "thread 1 tid=5\n"
      "thread 2 tid=6\n"
      "+1.000000000 a:5/1 > ncclGroupStart\n"
      "+1.500000000 a:5/2 < cudaMalloc =cudaErrorMemoryAllocation\n"
      "+2.000000000 a:5/1 > cudaMalloc bytes=64 on-device=3 caller=0x77\n"
      "+3.000000000 a:5/1 < cudaMalloc =cudaSuccess address=0xabc\n"
      "+4.000000000 a:5/1 < ncclGroupStart =ncclSuccess\n"
      "+5.000000000 a:5/1 > cudaMalloc bytes=1 leave-lost\n"
      "+6.000000000 a:5/1 > cudaSetDevice device=1 on-device=0\n"
      "+7.000000000 a:5/1 < cudaSetDevice =cudaSuccess\n";
  const DumpText dump = parsed(text);
  EXPECT_EQ(printed(dump.processes), text);
  ASSERT_EQ(dump.processes[0].events.size(), 5u);
  EXPECT_TRUE(dump.processes[0].events[1].enter_lost);
  EXPECT_FALSE(dump.processes[0].events[3].returned);
}

TEST(DumpText, WhatPyTorchsAllocatorSaidIsKept) {
  const std::string text =
      "start 1700000000.000000000\n"
      "process a:5 host=a pid=5 armed=+0.000000000\n"
      "stack 3 train.py:7:step\n"
      "thread 1 tid=5\n"
      "tensor-device 0 at=+1.000000000 allocated=512 reserved=2097152 peak-allocated=1024 "
      "peak-reserved=2097152 peak-at=+0.500000000 before=1024 allocations=1 frees=2 change=-512\n"
      "tensor-block 0x7f00 bytes=512 at=+1.000000000 device=0 @3\n"
      "freed-block 1024 at=+0.500000000 freed=+2.500000000 device=0 @3\n"
      "out-of-memory 2 at=+3.000000000 call=reportOutOfMemoryToProfiler bytes=4096 device=0 "
      "allocated=512 reserved=2097152 free=5 total=99 asked=+2.000000000 not-held=1 @3\n"
      "held 2 0x7f00 bytes=512 call=reportMemoryUsageToProfiler device=0 @3\n"
      "+1.000000000 a:5/1 > cudaMalloc bytes=64 on-device=0\n"
      "+1.500000000 a:5/1 * reportMemoryUsageToProfiler address=0x7f00 change=-512 allocated=512 "
      "reserved=2097152 @3=train.py:7:step on-device=0\n"
      "+2.000000000 a:5/1 < cudaMalloc =cudaSuccess address=0xabc\n";
  const DumpText dump = parsed(text);
  EXPECT_EQ(printed(dump.processes), text);
  ASSERT_EQ(dump.processes[0].events.size(), 2u);
  EXPECT_TRUE(dump.processes[0].events[1].moment);
  EXPECT_TRUE(dump.processes[0].events[1].returned);
  ASSERT_EQ(dump.processes[0].out_of_memory.size(), 1u);
  EXPECT_EQ(dump.processes[0].out_of_memory[0].held.size(), 1u);
  EXPECT_NE(complaint("process a\nheld 1 0x5\n"), "none");
}

TEST(DumpText, WhatSomebodySawIsKept) {
  const std::string text =
      "start 1700000000.000000000\n"
      "process a:5 host=a pid=5 armed=+0.000000000 looked=+9.000000000\n"
      "thread-now 5 name=python3 role=main waits=file on=\"/data/a b\" steady ran holds-gil whole\n"
      "frame-now 5 python read file=\"my, io.py\" line=7\n"
      "frame-now 5 native \"std::map<int, int>::at\" module=/lib/libx.so\n"
      "thread-now 6 state=R waits=runs pid=6\n";
  const DumpText dump = parsed(text);
  EXPECT_EQ(printed(dump.processes), text);
  ASSERT_EQ(dump.processes[0].now.size(), 2u);
  EXPECT_EQ(dump.processes[0].now[0].waiting, Waiting::kFile);
  EXPECT_TRUE(dump.processes[0].now[0].holds_gil);
  EXPECT_NE(complaint("process a\nframe-now 5 python f\n").find("2: "), std::string::npos);
}

TEST(DumpText, StrangeTextSurvives) {
  ProcessTrace trace;
  trace.host = "my host";
  trace.pid = 7;
  trace.facts["command-line"] = std::string("a\0b \"c\\\n", 8);
  trace.facts["env.RANK"] = "";
  trace.stacks[3].python = {{"<module>", "/tmp/a b:c.py", 12}, {"f", "", 0}};
  trace.stacks[3].native = {0x1234};
  trace.modules = {{0x1000, 0x2000, 0x1000, "ab01", "/x/lib y.so"}};
  trace.errors = {{"", 4096, "a \"chunk\"", false, true}};
  const std::string once = printed({trace});
  const DumpText dump = parsed(once);
  EXPECT_EQ(printed(dump.processes), once);
  EXPECT_EQ(dump.processes[0].facts, trace.facts);
  EXPECT_EQ(dump.processes[0].stacks.at(3).python[0].file, "/tmp/a b:c.py");
  EXPECT_EQ(dump.processes[0].stacks.at(3).python[0].function, "<module>");
}

TEST(DumpText, ErrorsNameTheLineAndWhatWasExpected) {
  EXPECT_EQ(
      complaint("ranks 0-3\ncomunicator dp members=0-3\n"),
      "2: expected a line of docs/dump.md instead of comunicator; did you mean communicator?");
  EXPECT_EQ(complaint("ranks 0-1\n+1 0-2 calls cudaMalloc\n"),
            "2: expected a `ranks` or `process` line above that has rank 2");
  EXPECT_EQ(complaint("ranks 0 hots=b\n"),
            "1: expected nothing like hots here; did you mean host?");
  EXPECT_EQ(complaint("ranks 0\n+1 0 calls ncclAllReduce\n"),
            "2: expected `on COMMUNICATOR`: process 0 has 0 of them");
  EXPECT_EQ(complaint("\n\nfact a \"b\n"), "3: expected a quote that is closed");
  EXPECT_EQ(complaint("fact a b\n"), "1: expected a `process` or `ranks` line above");
}

TEST(DumpText, RunsMayHaveTheSameRanks) {
  const DumpText dump = parsed(
      "run one\nranks 0-1\ncommunicator dp members=0-1\n+5 0-1 calls ncclAllReduce\n"
      "start 1700001000\nrun two\nranks 0-1\ncommunicator dp members=0-1\n+6 0-1 "
      "exits\n---\nexpect x\n");
  ASSERT_EQ(dump.processes.size(), 4u);
  EXPECT_NE(dump.processes[0].communicators[0].id, dump.processes[2].communicators[0].id);
  EXPECT_EQ(dump.processes[0].last_alive, dump.start - 1'000'000'000'000 + 5'000'010'000);
  EXPECT_EQ(dump.processes[2].exited, dump.start + 6'000'000'000);
  EXPECT_NE(dump.processes[0].pid, dump.processes[2].pid);
  EXPECT_EQ(dump.rest, "expect x\n");
  EXPECT_EQ(dump.rest_line, 11);
}

}  // namespace
}  // namespace traintrace
