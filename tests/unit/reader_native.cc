// uses: analyzer
// The reader of native traces: what it makes of good ones, and of damaged ones.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>

#include "analyzer/reader/read_trace.h"
#include "format/segments.h"
#include "tests/unit/trace_builder.h"

namespace traintrace {
namespace {

using testing::enter;
using testing::kTestEpochNs;
using testing::leave;
using testing::moment;
using testing::TemporaryFile;
using testing::ticks_at_ms;
using testing::TraceBuilder;

constexpr TimeNs kMs = 1'000'000;
constexpr TimeNs kEpoch = kTestEpochNs;

std::string unique_path(const std::string& suffix = ".trace") {
  static int count = 0;
  return ::testing::TempDir() + "reader_native." + std::to_string(getpid()) + "." +
         std::to_string(++count) + suffix;
}

Result<ProcessTrace> read_bytes(const std::string& bytes, bool events = true) {
  const TemporaryFile file(unique_path(), bytes);
  return read_trace(file.path(), {.events = events});
}

// Fails the test where the trace cannot be read or has errors.
ProcessTrace read_good(TraceBuilder& builder) {
  Result<ProcessTrace> trace = read_bytes(builder.build());
  if (!trace) {
    ADD_FAILURE() << trace.error().offset << ": " << trace.error().message;
    return {};
  }
  for (const ReadError& error : trace->errors) {
    ADD_FAILURE() << error.offset << ": " << error.message;
  }
  return *trace;
}

std::vector<std::string> messages(const ProcessTrace& trace) {
  std::vector<std::string> all;
  for (const ReadError& error : trace.errors) {
    all.push_back(error.message);
  }
  return all;
}

uint64_t loss(const ProcessTrace& trace, const std::string& stat) {
  for (const LossText& loss : trace.losses) {
    if (loss.stat == stat) {
      return loss.count;
    }
  }
  return 0;
}

TEST(ReaderNative, HeaderGivesWhoAndWhen) {
  TraceBuilder builder;
  builder.header.exit_kind = format::kFastExit;
  builder.header.exit_status = 3;
  builder.header.exit_ticks = ticks_at_ms(61'000);
  const ProcessTrace trace = read_good(builder);
  EXPECT_EQ(trace.host, "node-a");
  EXPECT_EQ(trace.pid, 4242);
  EXPECT_EQ(trace.armed, kEpoch);
  EXPECT_EQ(trace.last_alive, kEpoch + 60'000 * kMs);
  EXPECT_EQ(trace.exited, kEpoch + 61'000 * kMs);
  EXPECT_EQ(trace.exit_kind, format::kFastExit);
  EXPECT_EQ(trace.exit_status, 3);
  EXPECT_FALSE(trace.running_now.has_value()) << "node-a is another machine";
}

TEST(ReaderNative, CallsOfAllThreadsAreMatchedAndSortedByTime) {
  TraceBuilder builder;
  builder.add_thread(1, 6);
  builder.add_thread(2, 1);
  builder.add_chunk(2, 2, 0, {enter(3, 15, {64})});
  builder.add_chunk(1, 1, 0, {enter(9, 10), enter(3, 11, {128}, 5), leave(3, 12, 2)});
  builder.add_chunk(3, 1, 3, {leave(9, 20), enter(3, 21, {256}), leave(3, 22, 0, {0xabc})});
  const ProcessTrace trace = read_good(builder);
  ASSERT_EQ(trace.events.size(), 4u);
  EXPECT_EQ(trace.records, 7u);
  const CallRecord& group = trace.events[0];
  const CallRecord& failed = trace.events[1];
  const CallRecord& open = trace.events[2];
  const CallRecord& done = trace.events[3];
  EXPECT_EQ(trace.calls[group.call].name, "ncclGroupStart");
  EXPECT_EQ(group.enter, kEpoch + 10 * kMs);
  EXPECT_EQ(group.leave, kEpoch + 20 * kMs);
  EXPECT_EQ(failed.result, 2);
  EXPECT_EQ(failed.stack, 5u);
  EXPECT_EQ(failed.caller, 0xca11u);
  EXPECT_EQ(trace.values_of(failed)[0], 0u) << "an out field of a call that failed";
  EXPECT_EQ(trace.values_of(failed)[1], 128u);
  EXPECT_EQ(open.thread, 2u);
  EXPECT_FALSE(open.returned);
  EXPECT_FALSE(open.leave_lost);
  EXPECT_EQ(trace.values_of(done)[0], 0xabcu);
  EXPECT_TRUE(trace.losses.empty());
}

TEST(ReaderNative, OverwrittenRecordsAreCountedAndLeaveNoFalseHang) {
  TraceBuilder builder;
  builder.add_thread(1, 12);
  builder.add_thread(2, 4);  // all of its records are gone
  builder.add_chunk(8, 1, 5, {leave(9, 30), enter(3, 31, {1})});
  builder.add_chunk(9, 1, 10, {enter(9, 40), leave(9, 41)});
  const ProcessTrace trace = read_good(builder);
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_TRUE(trace.events[0].enter_lost);
  EXPECT_TRUE(trace.events[0].returned);
  EXPECT_TRUE(trace.events[1].leave_lost)
      << "its return may be among the three records that are gone";
  EXPECT_EQ(loss(trace, "ring-overwritten"), 5u + 3u + 4u);
}

TEST(ReaderNative, ACallLeftByAnExceptionDoesNotTakeTheNextReturn) {
  TraceBuilder builder;
  builder.add_thread(1, 4);
  builder.add_chunk(1, 1, 0, {enter(9, 10), enter(3, 11, {1}), leave(9, 12), enter(3, 13, {2})});
  const ProcessTrace trace = read_good(builder);
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_TRUE(trace.events[0].returned);
  EXPECT_FALSE(trace.events[1].returned);
  EXPECT_FALSE(trace.events[2].returned);
}

TEST(ReaderNative, CommunicatorsKeepTheirOperationsAndAreRenumbered) {
  TraceBuilder builder;
  builder.communicators.resize(2);  // the first is not whole
  format::Communicator& communicator = builder.communicators[1];
  communicator.used = 1;
  communicator.origin = format::kInitAll;
  communicator.id = 0x1234;
  communicator.size = 4;
  communicator.rank = 3;
  std::strcpy(communicator.name, "dp");
  communicator.collectives = 70;
  communicator.hash = 1;  // an instant older than the counter
  communicator.latest[0] = {70, 99};
  communicator.operations = 70;
  communicator.checkpoints[0] = {256, 5};  // was taken back
  builder.streams.resize(2);
  builder.streams[1].handle_tag = 1;
  builder.streams[1].issued = 7;
  for (uint32_t n = 6; n < 70; ++n) {
    format::Operation operation{};
    operation.enter_ticks = ticks_at_ms(n);
    operation.index_low = n;
    operation.sequence = n + 1;
    operation.call = 7;
    operation.stream = 2;
    operation.data_type = 255;
    builder.operations[64 + n % 64] = operation;
  }
  builder.peers.resize(1);
  builder.peers[0].communicator = 2;
  builder.peers[0].peer = 1;
  builder.peers[0].operations = 3;
  builder.add_thread(1, 1);
  builder.add_chunk(1, 1, 0, {enter(7, 70, {2, 70, 1024})});
  const ProcessTrace trace = read_good(builder);
  ASSERT_EQ(trace.communicators.size(), 1u);
  const CommunicatorText& read = trace.communicators[0];
  EXPECT_EQ(read.name, "dp");
  EXPECT_EQ(read.hash, 99u);
  EXPECT_TRUE(read.checkpoints.empty());
  ASSERT_EQ(read.recent.size(), 64u);
  EXPECT_EQ(read.recent.front().index, 6u);
  EXPECT_EQ(read.recent.back().sequence, 70u);
  EXPECT_EQ(read.recent.back().stream, 1u);
  EXPECT_EQ(read.recent.back().data_type, -1);
  EXPECT_TRUE(read.recent.back().collective);
  EXPECT_EQ(trace.values_of(trace.events[0])[0], 1u);
  ASSERT_EQ(trace.peers.size(), 1u);
  EXPECT_EQ(trace.peers[0].communicator, 1u);
}

TEST(ReaderNative, HostFunctionsComeInTheirOrderWithTheirStreams) {
  TraceBuilder builder;
  builder.streams.resize(2);  // the first is not in use
  builder.streams[1].handle_tag = 1;
  builder.host_functions.resize(3);
  builder.host_functions[0] = {0x5000, ticks_at_ms(9), 0, 0, 4, 2, 6, 0, 3, 1, 0};
  builder.host_functions[2] = {0x6000, ticks_at_ms(8), ticks_at_ms(9), 0, 0, 2, 6, 77, 3, 1, 0};
  const ProcessTrace trace = read_good(builder);
  ASSERT_EQ(trace.host_functions.size(), 2u);
  EXPECT_EQ(trace.host_functions[0].function, 0x6000u);
  EXPECT_EQ(trace.host_functions[0].stream, 1u);
  EXPECT_EQ(trace.host_functions[0].tid, 77);
  EXPECT_NE(trace.host_functions[0].entered, 0);
  EXPECT_EQ(trace.host_functions[0].left, 0);
  EXPECT_EQ(trace.host_functions[1].position, 4u);
  EXPECT_EQ(trace.host_functions[1].entered, 0);
}

TEST(ReaderNative, MomentsAreEventsThatReturnedAtOnceAndMayHaveFewerValues) {
  TraceBuilder builder;
  builder.add_thread(1, 4);
  builder.add_chunk(1, 1, 0,
                    {enter(3, 10, {128}), moment(11, 11, {0x7000, 512, 1024, 4096}, 5, 2),
                     moment(11, 12, {0, static_cast<uint64_t>(-512)}), leave(3, 13, 0, {0xabc})});
  const ProcessTrace trace = read_good(builder);
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.events[0].leave, kEpoch + 13 * kMs);
  const CallRecord& report = trace.events[1];
  EXPECT_TRUE(report.moment);
  EXPECT_TRUE(report.returned);
  EXPECT_EQ(report.leave, report.enter);
  EXPECT_EQ(report.stack, 5u);
  EXPECT_EQ(report.device, 2);
  EXPECT_EQ(trace.values_of(report)[3], 4096u);
  EXPECT_EQ(static_cast<int64_t>(trace.values_of(trace.events[2])[1]), -512);
  EXPECT_EQ(trace.values_of(trace.events[2])[3], 0u);
}

TEST(ReaderNative, BlocksThatWereFreedLastAreTold) {
  TraceBuilder builder;
  builder.tensor_blocks = {
      {format::freed_at(ticks_at_ms(12)), 1024, ticks_at_ms(3), 5, 1, {}},
      {format::freed_at(ticks_at_ms(8)), 1024, ticks_at_ms(2), 6, 1, {}},  // more was allocated
      {format::freed_at(ticks_at_ms(11)), 512, ticks_at_ms(10), 7, 1, {}},
      {0x9000, 2048, ticks_at_ms(9), 5, 1, {}},
      {1, 4096, ticks_at_ms(1), 5, 1, {}},  // when is not known
  };
  const ProcessTrace trace = read_good(builder);
  EXPECT_EQ(trace.tensor_blocks.size(), 1u);
  ASSERT_EQ(trace.freed_blocks.size(), 2u);
  EXPECT_EQ(trace.freed_blocks[0].stack, 5u);
  EXPECT_EQ(trace.freed_blocks[0].bytes, 1024u);
  EXPECT_LT(trace.freed_blocks[0].time, trace.freed_blocks[0].freed);
  EXPECT_EQ(trace.freed_blocks[1].stack, 7u);
}

TEST(ReaderNative, WhatPyTorchsAllocatorHoldsComesInOrder) {
  TraceBuilder builder;
  builder.tensor_blocks.resize(4);  // one was freed, one never used
  builder.tensor_blocks[0] = {0x9000, 1024, ticks_at_ms(9), 5, 1, {}};
  builder.tensor_blocks[1] = {1, 512, ticks_at_ms(7), 5, 1, {}};
  builder.tensor_blocks[3] = {0x8000, 512, ticks_at_ms(8), 6, 0, {}};
  builder.tensor_devices.resize(3);
  builder.tensor_devices[1] = {ticks_at_ms(9), 10, 20, 30, 40, ticks_at_ms(8), 5, 7, 6, -5};
  const ProcessTrace trace = read_good(builder);
  ASSERT_EQ(trace.tensor_blocks.size(), 2u);
  EXPECT_EQ(trace.tensor_blocks[0].address, 0x8000u);
  EXPECT_EQ(trace.tensor_blocks[1].device, 1);
  ASSERT_EQ(trace.tensor_devices.size(), 1u);
  EXPECT_EQ(trace.tensor_devices[0].device, 1);
  EXPECT_EQ(trace.tensor_devices[0].peak_reserved, 40u);
  EXPECT_EQ(trace.tensor_devices[0].change, -5);
}

std::string segment(uint64_t ordinal, uint64_t first_event, const std::vector<uint64_t>& words) {
  const format::EventChunk chunk{
      ordinal, 1, 4242, first_event, static_cast<uint32_t>(words.size() * 8), 0};
  std::string raw(reinterpret_cast<const char*>(&chunk), sizeof chunk);
  raw.append(reinterpret_cast<const char*>(words.data()), words.size() * 8);
  std::string packed(ZSTD_compressBound(raw.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 1));
  format::SegmentHead head{
      {}, 77, 4242, 1, static_cast<uint32_t>(raw.size()), static_cast<uint32_t>(packed.size())};
  std::memcpy(head.magic, format::kSegmentMagic, sizeof head.magic);
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + packed;
}

ProcessTrace read_with_segments(const TraceBuilder& from, const std::string& segments) {
  char folder[] = "/tmp/reader_nativeXXXXXX";
  EXPECT_NE(mkdtemp(folder), nullptr);
  const std::string stem = std::string(folder) + "/x";
  TraceBuilder builder = from;
  std::ofstream(stem + format::kTraceSuffix) << builder.build();
  std::ofstream(stem + format::kSegmentsSuffix) << segments;
  Result<ProcessTrace> trace = read_trace(stem + format::kTraceSuffix, {.events = true});
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(trace);
  return trace ? *trace : ProcessTrace{};
}

TEST(ReaderNative, SegmentsAndTheRingAreOneHistory) {
  TraceBuilder builder;
  builder.add_thread(1, 4);
  builder.add_chunk(7, 1, 2, {moment(11, 12, {0, 3}), moment(11, 13, {0, 4})});
  const std::string older = segment(5, 0, moment(11, 10, {0, 1}));
  const std::string second = segment(6, 1, moment(11, 11, {0, 2}));
  const std::string both = segment(7, 2, moment(11, 12, {0, 3}));
  const auto changes = [](const ProcessTrace& trace) {
    std::vector<uint64_t> found;
    for (const CallRecord& event : trace.events) {
      found.push_back(trace.values_of(event)[1]);
    }
    return found;
  };
  using Changes = std::vector<uint64_t>;
  const ProcessTrace whole = read_with_segments(builder, second + older);
  EXPECT_EQ(changes(whole), (Changes{1, 2, 3, 4}));
  EXPECT_TRUE(whole.errors.empty());
  EXPECT_TRUE(whole.losses.empty());
  EXPECT_EQ(changes(read_with_segments(builder, older + second + both)).size(), 3u)
      << "each once, and a segment is whole";
  for (size_t cut = 0; cut < second.size(); ++cut) {
    const ProcessTrace trace = read_with_segments(builder, older + second.substr(0, cut));
    EXPECT_EQ(changes(trace), (Changes{1, 3, 4})) << cut;
    EXPECT_TRUE(trace.errors.empty()) << cut;
  }
  for (size_t at = 0; at < second.size(); ++at) {
    std::string damaged = second;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const ProcessTrace trace = read_with_segments(builder, older + damaged);
    EXPECT_GE(changes(trace).size(), 3u) << at;
  }
  EXPECT_EQ(changes(read_with_segments(builder, "nonsense, and more than a head has of it")),
            (Changes{3, 4}));
}

TEST(ReaderNative, BlocksOfAFailureAreThereWholeOrNotAtAll) {
  TraceBuilder builder;
  builder.failures.resize(4);
  builder.failures[3] = {ticks_at_ms(5), 64, 0, 0, 5, 9, ticks_at_ms(4), 7, 1, 3, 0, 0, 2, 2, 1};
  builder.failures[1] = {ticks_at_ms(6), 32, 8, 16, 0, 0, 0, 8, 1, 11, 0, 0, 0, 2, 0};
  builder.held_blocks = {{0x9000, 8, 1, 7, 3, 0, {}},
                         {0x8000, 4, 1, 7, 11, 0, {}},
                         {0x8000, 4, 1, 8, 11, 0, {}}};  // the second of number 8 is missing
  const ProcessTrace trace = read_good(builder);
  ASSERT_EQ(trace.out_of_memory.size(), 2u);
  const OutOfMemoryText& first = trace.out_of_memory[0];
  EXPECT_EQ(first.number, 7u);
  EXPECT_EQ(first.result, 2);
  EXPECT_EQ(first.free, 5u);
  EXPECT_EQ(first.asked, kEpoch + 4 * kMs);
  EXPECT_EQ(first.not_held, 1u);
  ASSERT_EQ(first.held.size(), 2u);
  EXPECT_EQ(first.held[0].address, 0x8000u);
  EXPECT_EQ(trace.calls[first.held[1].call].name, "cudaMalloc");
  EXPECT_EQ(trace.out_of_memory[1].allocated, 8u);
  EXPECT_EQ(trace.out_of_memory[1].asked, 0);
  EXPECT_TRUE(trace.out_of_memory[1].held.empty());
}

TEST(ReaderNative, DefinitionsAreResolved) {
  TraceBuilder builder;
  builder.add_definition(format::ModuleDefinition{{}, 0x1000, 0x2000, 0x1000, 0, 2, 9},
                         format::kModule, "\xab\x01/x/lib.so");
  const format::PythonFrame frame{4, 0};
  std::string frames(reinterpret_cast<const char*>(&frame), sizeof frame);
  const uint64_t address = 0x1234;
  frames.append(reinterpret_cast<const char*>(&address), sizeof address);
  builder.add_definition(format::StackDefinition{{}, 6, 1, 1}, format::kStack, frames);
  // Behind the stack that needs it.  Line table of 3.11: one instruction, line delta +2, no column.
  builder.add_definition(format::PythonCodeDefinition{{}, 4, 11, 116, 4, 8, 2}, format::kPythonCode,
                         std::string("steptrain.py") + "\xe8\x04");
  builder.add_definition(format::KernelDefinition{{}, 0x5000, 3, 0}, format::kKernel, "_Zk");
  builder.add_definition(format::FactDefinition{{}, 8, 1}, format::kFact, "env.RANK3");
  const ProcessTrace trace = read_good(builder);
  ASSERT_EQ(trace.modules.size(), 1u);
  EXPECT_EQ(trace.modules[0].build_id, "ab01");
  EXPECT_EQ(trace.modules[0].path, "/x/lib.so");
  EXPECT_EQ(trace.kernels.at(0x5000), "_Zk");
  EXPECT_EQ(trace.facts.at("env.RANK"), "3");
  const StackText& stack = trace.stacks.at(6);
  EXPECT_EQ(stack.python.at(0).function, "step");
  EXPECT_EQ(stack.python.at(0).file, "train.py");
  EXPECT_EQ(stack.python.at(0).line, 118);
  EXPECT_EQ(stack.native.at(0), 0x1234u);
}

TEST(ReaderNative, LossesHaveTheNamesOfTheTrace) {
  TraceBuilder builder;
  builder.stats[5] = 7;
  builder.stats[6] = 1;
  const ProcessTrace trace = read_good(builder);
  ASSERT_EQ(trace.losses.size(), 2u);
  EXPECT_EQ(trace.losses[0].stat, "no-chunk");
  EXPECT_EQ(trace.losses[0].count, 7u);
  EXPECT_EQ(trace.losses[0].severity, "warning");
  EXPECT_EQ(trace.losses[1].stat, "stat#6");
}

TEST(ReaderNative, AShorterElementOfAnOlderTraceIsRead) {
  TraceBuilder builder;
  builder.add_thread(1, 0);
  std::string bytes = builder.build();
  format::FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (format::Section& section : header.sections) {
    if (section.kind == format::kThreads) {
      section.element_bytes = 24;  // serial, tid, name
      section.bytes = 24;
    }
  }
  std::memcpy(bytes.data(), &header, sizeof header);
  const Result<ProcessTrace> trace = read_bytes(bytes);
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->threads.size(), 1u);
  EXPECT_EQ(trace->threads[0].name, "worker");
  EXPECT_EQ(trace->threads[0].started, 0);
}

TEST(ReaderNative, TimesOfAProcessThatWasKilledAtOnceAreEstimates) {
  TraceBuilder builder;
  builder.header.anchor_index = 0;
  const Result<ProcessTrace> trace = read_bytes(builder.build());
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->armed, kEpoch);
  EXPECT_EQ(messages(*trace),
            std::vector<std::string>{"expected two clock anchors: times are estimates"});
}

TEST(ReaderNative, ATruncatedFileIsUsedAsFarAsItGoes) {
  TraceBuilder builder;
  builder.add_thread(1, 4);
  builder.add_chunk(1, 1, 0, {enter(9, 10), leave(9, 11)});
  builder.add_chunk(2, 1, 2, {enter(9, 20), leave(9, 21)});
  const std::string bytes = builder.build();
  // Behind the first record of the second chunk.
  const size_t cut = bytes.size() - testing::kTestChunkBytes + sizeof(format::EventChunk) + 24;
  const Result<ProcessTrace> trace = read_bytes(bytes.substr(0, cut));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events.size(), 2u);
  ASSERT_FALSE(trace->errors.empty());
  EXPECT_TRUE(trace->errors[0].truncated);
  EXPECT_EQ(trace->errors[0].offset, cut);
  EXPECT_FALSE(trace->events[1].returned);
}

TEST(ReaderNative, NoLengthOfAFileIsAProblem) {
  TraceBuilder builder;
  builder.add_thread(1, 2);
  builder.add_definition(format::FactDefinition{{}, 8, 1}, format::kFact, "env.RANK3");
  builder.add_chunk(1, 1, 0, {enter(9, 10), leave(9, 11)});
  const std::string bytes = builder.build();
  for (size_t length = 0; length < bytes.size(); length += length < 600 ? 1 : 61) {
    const Result<ProcessTrace> trace = read_bytes(bytes.substr(0, length));
    if (trace) {
      EXPECT_FALSE(trace->errors.empty()) << length;
    } else {
      EXPECT_FALSE(trace.error().message.empty()) << length;
    }
  }
}

TEST(ReaderNative, VersionOneHasTheReductionsUpperHalfWhereTheGroupIsNow) {
  TraceBuilder builder;
  builder.communicators.resize(1);
  format::Communicator& communicator = builder.communicators[0];
  communicator.used = 1;
  communicator.origin = format::kInitAll;
  communicator.id = 0x1234;
  communicator.size = 2;
  communicator.operations = 1;
  format::Operation operation{};
  operation.enter_ticks = ticks_at_ms(6);
  operation.sequence = 1;
  operation.call = 7;
  operation.data_type = 255;
  operation.reduction = -1;
  operation.group = 0xffff;
  builder.operations[0] = operation;
  for (const uint32_t version : {1u, 2u}) {
    builder.header.version = version;
    const ProcessTrace trace = read_good(builder);
    ASSERT_EQ(trace.communicators.size(), 1u);
    ASSERT_EQ(trace.communicators[0].recent.size(), 1u);
    EXPECT_EQ(trace.communicators[0].recent[0].reduction, -1);
    EXPECT_EQ(trace.communicators[0].recent[0].group, version == 1 ? 0u : 0xffffu);
  }
}

TEST(ReaderNative, AnExitStatusIsWhatTheParentIsTold) {
  TraceBuilder builder;
  builder.header.exit_kind = format::kExit;
  for (const auto& [given, told] : {std::pair(-1, 255), {255, 255}, {256, 0}, {1, 1}}) {
    builder.header.exit_status = given;
    EXPECT_EQ(read_good(builder).exit_status, told);
  }
}

TEST(ReaderNative, TheHeaderOfVersion4TellsOfTheEndAndOfTheClocks) {
  TraceBuilder builder;
  builder.header.boot_id[1] = 0xabc;
  builder.header.anchor_boottime_ns[0] = 100'000'000'000;
  builder.header.anchor_boottime_ns[2] = 160'000'000'000;
  // Set forward by an hour between the first and the newest anchor.
  constexpr uint64_t kHour = 3'600'000'000'000;
  builder.header.anchors[1].realtime_ns += kHour;
  builder.header.gone_boottime_ns = 161'000'000'000;
  builder.header.gone_realtime_ns = 1;
  builder.header.gone_status = 9;
  builder.header.gone_how = format::kSeenGoneStatus;
  const ProcessTrace trace = read_good(builder);
  EXPECT_EQ(trace.boot, "00000000000000010000000000000abc");
  EXPECT_EQ(trace.booted_at_first, static_cast<TimeNs>(kTestEpochNs - 100'000'000'000));
  EXPECT_EQ(trace.booted, trace.booted_at_first + static_cast<TimeNs>(kHour));
  EXPECT_EQ(trace.gone, trace.last_alive + 1'000'000'000);
  EXPECT_EQ(trace.wait_status, 9);
  builder.header.gone_how = format::kSeenGone;
  EXPECT_EQ(read_good(builder).wait_status, -1);
}

TEST(ReaderNative, OlderHeadersTellOfNeither) {
  TraceBuilder builder;
  builder.header.version = 3;
  const ProcessTrace trace = read_good(builder);
  EXPECT_EQ(trace.gone, 0);
  EXPECT_EQ(trace.wait_status, -1);
  EXPECT_EQ(trace.booted_at_first, 0);
  EXPECT_EQ(trace.booted, 0);
}

TEST(ReaderNative, FilesThatAreNoTraceAreRefusedWithTheReason) {
  TraceBuilder builder;
  const std::string good = builder.build();
  EXPECT_EQ(read_bytes("hello").error().message,
            "neither a trace nor the text of `traintrace dump`");
  EXPECT_EQ(read_bytes(good.substr(0, 100)).error().offset, 100u);
  EXPECT_TRUE(read_bytes(good.substr(0, 100)).error().truncated);
  builder.header.version = format::kVersion + 1;
  EXPECT_EQ(read_bytes(builder.build()).error().message,
            "expected format version 1 to 5, found 6: read it with the traintrace that wrote it");
  builder.header.version = format::kVersion;
  EXPECT_EQ(read_trace("/nowhere/x.trace", {}).error().message,
            "cannot be opened: No such file or directory");
  EXPECT_EQ(read_trace("/tmp", {}).error().message, "expected a regular file, found a folder");
  EXPECT_EQ(read_trace("/dev/zero", {}).error().message, "expected a regular file, found a device");
}

// Killed at any instruction from the creation of the file on.
TEST(ReaderNative, ATraceThatIsBeingSetUpIsNotBegun) {
  TraceBuilder builder;
  builder.header.ready = 0;
  for (const std::string& bytes :
       {std::string(), std::string(100, '\0'), std::string(100'000, '\0'), builder.build()}) {
    const ReadError error = read_bytes(bytes).error();
    EXPECT_EQ(error.message, "not begun: the process ended, or is, while its trace is set up");
    EXPECT_TRUE(error.not_begun);
  }
  EXPECT_FALSE(read_bytes(std::string(4096, '\0') + "x").error().not_begun)
      << "a hole where the header was";
}

TEST(ReaderNative, OverlappingAndWildSectionsAreLeftOut) {
  TraceBuilder builder;
  builder.add_thread(1, 0);
  std::string bytes = builder.build();
  format::FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.sections[1].offset = header.sections[0].offset;  // statistics upon the schema
  header.sections[2].element_bytes = 0;
  header.sections[3].offset = ~uint64_t{0} - 4;
  header.sections[3].bytes = 100;
  header.sections[4].offset = 8;
  header.sections[4].bytes = 8;
  std::memcpy(bytes.data(), &header, sizeof header);
  const Result<ProcessTrace> trace = read_bytes(bytes);
  ASSERT_TRUE(trace);
  EXPECT_EQ(messages(*trace),
            (std::vector<std::string>{"expected sections 1 and 2 not to overlap",
                                      "expected an element of 1 byte to 64 MiB, found 0",
                                      "expected an end that fits 64 bits",
                                      "expected a section behind the header, found offset 8"}));
}

TEST(ReaderNative, WithoutEventsTheTablesTellHowManyThereWere) {
  TraceBuilder builder;
  builder.add_thread(1, 10);
  builder.stats[0] = 4;
  builder.add_chunk(3, 1, 4, {enter(9, 10), leave(9, 11)});
  const Result<ProcessTrace> trace = read_bytes(builder.build(), false);
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->events.empty());
  EXPECT_EQ(trace->records, 6u);
}

TEST(ReaderNative, PointerFilesLeadToTheTrace) {
  TraceBuilder builder;
  const TemporaryFile trace(unique_path(), builder.build());
  char host[65] = {};
  gethostname(host, sizeof host - 1);
  const TemporaryFile pointer(unique_path(".pointer"),
                              "traintrace-pointer 1\n" + trace.path() + "\n" + host + "\n");
  const Result<ProcessTrace> read = read_trace(pointer.path(), {});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->source, trace.path());
  const TemporaryFile away(unique_path(".pointer"), "traintrace-pointer 1\n/far/x.trace\nnode-z\n");
  EXPECT_EQ(
      read_trace(away.path(), {}).error().message,
      "the trace is on host node-z as /far/x.trace: collect it there (traintrace collect), or "
      "analyze it there");
  const TemporaryFile broken(unique_path(".pointer"), "traintrace-pointer 1\n/far/x.trace");
  EXPECT_EQ(read_trace(broken.path(), {}).error().offset, 21u);
}

}  // namespace
}  // namespace traintrace
