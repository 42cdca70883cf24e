// uses: analyzer
// Which stacks are one way through the code: addresses within the interpreter do not count.
#include <gtest/gtest.h>

#include "analyzer/memory/growth/call_paths.h"

namespace traintrace {
namespace {

ProcessTrace trace_of_stacks() {
  ProcessTrace trace;
  trace.modules = {{0x1000, 0x2000, 0x1000, "", "/usr/lib/libc10_cuda.so"},
                   {0x5000, 0x6000, 0x5000, "", "/usr/bin/python3.13"}};
  const PythonFrameText line{"step", "train.py", 8};
  trace.stacks[1] = {{line}, {0x1010, 0x5010, 0x5020}};
  trace.stacks[2] = {{line}, {0x1010, 0x5018, 0x5020}};
  trace.stacks[3] = {{line}, {0x1020, 0x5010, 0x5020}};
  trace.stacks[4] = {{{"step", "train.py", 9}}, {0x1010, 0x5010, 0x5020}};
  trace.stacks[5] = {{}, {0x1010, 0x5010}};
  trace.stacks[6] = {{}, {0x1010, 0x5018}};
  return trace;
}

TEST(MemoryCallPaths, DoNotTellAddressesOfTheInterpreterApart) {
  const ProcessTrace trace = trace_of_stacks();
  CallPaths paths(trace);
  EXPECT_EQ(paths.of(2), 2u);
  EXPECT_EQ(paths.of(1), 2u);
  EXPECT_EQ(paths.of(1), 2u);
}

TEST(MemoryCallPaths, TellLinesAndLibrariesApart) {
  const ProcessTrace trace = trace_of_stacks();
  CallPaths paths(trace);
  for (const uint32_t stack : {1u, 3u, 4u, 99u, 0u}) {
    EXPECT_EQ(paths.of(stack), stack);
  }
}

TEST(MemoryCallPaths, WithoutPythonFramesAllAddressesCount) {
  const ProcessTrace trace = trace_of_stacks();
  CallPaths paths(trace);
  EXPECT_EQ(paths.of(5), 5u);
  EXPECT_EQ(paths.of(6), 6u);
}

}  // namespace
}  // namespace traintrace
