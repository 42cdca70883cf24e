// uses: analyzer
// What was held at a moment, from the records; from the tables where records are missing.
#include "analyzer/memory/holders/held_at.h"

#include <gtest/gtest.h>

#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

constexpr const char* kStart =
    "process 0 rank=0 world=1 local=0 host=a pid=1000 alive=+4\nthread 1 tid=1000\n"
    "module 0x7f3100000000-0x7f3101000000 bias=0x7f3100000000 path=/usr/lib/libc10_cuda.so\n"
    "stack 1 train.py:3:build 0x7f3100001234\nstack 2 train.py:8:forward\n"
    "tensor-device 0 at=+3 allocated=0 reserved=8192 peak-allocated=4096 peak-reserved=8192 "
    "peak-at=+1 allocations=1 change=0\n";
constexpr const char* kRecords =
    "+1 0/1 > cudaMalloc bytes=8192 on-device=0 @1\n"
    "+1.01 0/1 < cudaMalloc =cudaSuccess address=0x10000\n"
    "+1.1 0/1 > cudaMalloc bytes=512 on-device=0 @2\n"
    "+1.11 0/1 < cudaMalloc =cudaSuccess address=0x20000\n"
    "+1.2 0/1 * reportMemoryUsageToProfiler address=0x10000 change=1024 allocated=1024 "
    "reserved=8192 on-device=0 @1\n"
    "+1.3 0/1 * reportMemoryUsageToProfiler address=0x10800 change=512 allocated=1536 "
    "reserved=8192 on-device=0 @2\n"
    "+1.4 0/1 * reportMemoryUsageToProfiler address=0x10000 change=-1024 allocated=512 "
    "reserved=8192 on-device=0\n";

OutOfMemoryText held_in(const std::string& text, TimeNs milliseconds) {
  Result<DumpText> dump = parse_dump(text, "test");
  if (!dump) {
    ADD_FAILURE() << dump.error().message;
    return {};
  }
  const ProcessTrace& trace = dump->processes.front();
  const TimeNs start = trace.events.empty() ? 0 : trace.events.front().enter;
  return held_at(trace, 0, start + (milliseconds - 1000) * 1'000'000);
}

TEST(MemoryHeldAt, ABlockCountsUntilItIsFreed) {
  const OutOfMemoryText before = held_in(std::string(kStart) + kRecords, 1350);
  ASSERT_EQ(before.held.size(), 3u) << "not the segment";
  EXPECT_EQ(before.held[0].address, 0x10000u);
  EXPECT_EQ(before.held[0].bytes, 1024u);
  EXPECT_EQ(before.held[2].address, 0x20000u);
  EXPECT_EQ(before.allocated, 1536u);
  EXPECT_EQ(before.reserved, 8192u);
  const OutOfMemoryText after = held_in(std::string(kStart) + kRecords, 1400);
  ASSERT_EQ(after.held.size(), 2u);
  EXPECT_EQ(after.held[0].address, 0x10800u);
  EXPECT_EQ(after.allocated, 512u);
}

TEST(MemoryHeldAt, WithoutRecordsTheTablesCount) {
  const OutOfMemoryText held = held_in(
      std::string(kStart) + "allocation 0x30000 bytes=2048 at=+1 device=0 call=cudaMalloc @2\n",
      1100);
  ASSERT_EQ(held.held.size(), 1u);
  EXPECT_EQ(held.held[0].bytes, 2048u);
  EXPECT_EQ(held.reserved, 8192u);
}

}  // namespace
}  // namespace traintrace
