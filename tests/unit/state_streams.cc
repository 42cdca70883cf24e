// uses: state
// What the job's own queries and synchronisations tell about NCCL operations, and what they do not.
#include <gtest/gtest.h>

#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using format::CallId;
using testing_world::World;

constexpr uint64_t kComm = 0x1000;
constexpr uint64_t kNcclStream = 0x5000;
constexpr uint64_t kComputeStream = 0x6000;
constexpr uint64_t kEvent = 0x8000;

class Streams : public testing::Test {
 protected:
  Streams() {
    unsigned char id[128] = {1};
    CommunicatorArguments arguments{};
    arguments.origin = format::kInitRank;
    arguments.unique_id = id;
    arguments.size = 2;
    arguments.device = 0;
    communicator_ready(thread(), communicator_entered(thread(), arguments), kComm, 0, 1);
  }

  ThreadState& thread(uint32_t index = 0) { return world_.thread(index); }

  const format::Operation& run(uint64_t stream, uint64_t ticks, uint32_t on_thread = 0) {
    OperationArguments arguments{};
    arguments.call = CallId::ncclAllReduce;
    arguments.collective = true;
    arguments.communicator = kComm;
    arguments.count = 8;
    arguments.data_type = 7;
    arguments.peer = -1;
    arguments.stream = stream;
    arguments.ticks = ticks;
    const OperationRef ref = operation_entered(thread(on_thread), arguments);
    operation_left(thread(on_thread), ref, 0, ticks + 1);
    return *ref.operation;
  }

  bool finished(const format::Operation& operation) {
    return operation.position != 0 && stream_of(operation).completed >= operation.position;
  }
  format::Stream& stream_of(const format::Operation& operation) {
    return world_.table<format::Stream>(format::kStreams)[operation.stream - 1];
  }
  void record(uint64_t event, uint64_t stream) {
    event_recorded(event, event_recording(thread(), event, stream));
  }
  uint32_t streams_in_use() {
    uint32_t used = 0;
    for (uint32_t i = 0; i < world_.sizes().streams; ++i) {
      used += world_.table<format::Stream>(format::kStreams)[i].handle_tag != 0 ? 1 : 0;
    }
    return used;
  }

  World world_;
};

TEST_F(Streams, SynchronisingTellsWhatWasIssuedBefore) {
  const auto& first = run(kNcclStream, 100);
  EXPECT_FALSE(finished(first));
  const uint64_t mark = stream_mark(thread(), kNcclStream);
  const auto& meanwhile = run(kNcclStream, 200, 1);
  mark_completed(mark, 300);
  EXPECT_TRUE(finished(first));
  EXPECT_FALSE(finished(meanwhile));
  EXPECT_EQ(stream_of(first).completed_ticks, 300u);
  mark_completed(mark, 400);  // older news change nothing
  EXPECT_EQ(stream_of(first).completed_ticks, 300u);
}

TEST_F(Streams, OtherStreamsTellNothing) {
  const auto& operation = run(kNcclStream, 100);
  mark_completed(stream_mark(thread(), kComputeStream), 200);
  EXPECT_FALSE(finished(operation));
}

TEST_F(Streams, EventsRememberWhereTheyWereRecorded) {
  const auto& before = run(kNcclStream, 100);
  record(kEvent, kNcclStream);
  const auto& behind = run(kNcclStream, 200);
  mark_completed(event_mark(kEvent), 300);
  EXPECT_TRUE(finished(before));
  EXPECT_FALSE(finished(behind));
}

TEST_F(Streams, EventsForgetWhenTheyAreRecordedElsewhereOrDestroyed) {
  const auto& operation = run(kNcclStream, 100);
  record(kEvent, kNcclStream);
  record(kEvent, kComputeStream);
  mark_completed(event_mark(kEvent), 200);
  EXPECT_FALSE(finished(operation));
  record(kEvent, kNcclStream);
  event_destroyed(kEvent);
  mark_completed(event_mark(kEvent), 300);
  EXPECT_FALSE(finished(operation));
  // Recording that failed: nobody knows where the event is.
  record(kEvent, kNcclStream);
  event_recording(thread(), kEvent, kNcclStream);
  EXPECT_EQ(event_mark(kEvent), 0u);
}

TEST_F(Streams, AnEventTakenBeforeASynchronisationKeepsItsPlace) {
  const auto& first = run(kNcclStream, 100);
  record(kEvent, kNcclStream);
  const uint64_t mark = event_mark(kEvent);  // cudaEventSynchronize entered
  const auto& second = run(kNcclStream, 200, 1);
  record(kEvent, kNcclStream);  // by another thread meanwhile
  mark_completed(mark, 300);
  EXPECT_TRUE(finished(first));
  EXPECT_FALSE(finished(second));
}

TEST_F(Streams, AStreamThatWaitedBringsTheOtherWithIt) {
  const auto& operation = run(kNcclStream, 100);
  record(kEvent, kNcclStream);
  const uint64_t early = stream_mark(thread(), kComputeStream);
  stream_waits(thread(), kComputeStream, kEvent);
  mark_completed(early, 150);
  EXPECT_FALSE(finished(operation)) << "the mark is from before the wait";
  const auto& later = run(kNcclStream, 200);
  mark_completed(stream_mark(thread(), kComputeStream), 300);
  EXPECT_TRUE(finished(operation));
  EXPECT_FALSE(finished(later));
}

TEST_F(Streams, WaitsReachThroughSeveralStreams) {
  const auto& operation = run(kNcclStream, 100);
  record(kEvent, kNcclStream);
  stream_waits(thread(), kComputeStream, kEvent);
  record(kEvent + 8, kComputeStream);
  stream_waits(thread(), 0x7000, kEvent + 8);
  record(kEvent + 16, 0x7000);
  mark_completed(event_mark(kEvent + 16), 300);
  EXPECT_TRUE(finished(operation));
}

TEST_F(Streams, ManyWaitsLoseKnowledgeOnly) {
  const auto& first = run(kNcclStream, 100);
  record(kEvent, kNcclStream);
  stream_waits(thread(), kComputeStream, kEvent);
  std::vector<const format::Operation*> others;
  for (uint64_t i = 0; i < 40; ++i) {
    others.push_back(&run(0x9000 + i * 16, 200 + i));
    record(kEvent, 0x9000 + i * 16);
    stream_waits(thread(), kComputeStream, kEvent);
  }
  const auto& never = run(kNcclStream, 500);
  mark_completed(stream_mark(thread(), kComputeStream), 600);
  EXPECT_FALSE(finished(never));
  EXPECT_FALSE(finished(first)) << "too long ago, which is allowed";
  EXPECT_TRUE(finished(*others.back()));
}

TEST_F(Streams, DeviceSynchronisationCoversItsDeviceAndItsTime) {
  const auto& here = run(kNcclStream, 100);
  const auto& during = run(kComputeStream, 200);
  thread(1).device = 1;
  device_completed(thread(1), 150, 300);
  EXPECT_FALSE(finished(here)) << "another device";
  device_completed(thread(), 150, 300);
  EXPECT_TRUE(finished(here));
  EXPECT_FALSE(finished(during)) << "handed over after the synchronisation had begun";
}

TEST_F(Streams, DefaultStreamsArePerDeviceAndPerThread) {
  const auto& legacy = run(0, 100);
  const auto& own = run(2, 200);
  EXPECT_NE(legacy.stream, own.stream);
  EXPECT_NE(stream_of(legacy).flags & format::kImplicit, 0u);
  EXPECT_EQ(stream_of(own).handle_tag, 3u);
  mark_completed(stream_mark(thread(1), 2), 300);
  EXPECT_FALSE(finished(own)) << "another thread's";
  mark_completed(stream_mark(thread(), 2), 300);
  EXPECT_TRUE(finished(own));
  EXPECT_FALSE(finished(legacy));
  mark_completed(stream_mark(thread(1), 1), 300);
  EXPECT_TRUE(finished(legacy)) << "1 and 0 are the same, for all threads of a device";
  thread(1).device = 1;
  const auto& again = run(0, 400);
  mark_completed(stream_mark(thread(1), 0), 500);
  EXPECT_FALSE(finished(again)) << "another device's";
}

TEST_F(Streams, HandlesAreUsedAgain) {
  stream_created(thread(), 0x7000, 5, 50);
  const auto& old = run(0x7000, 100);
  EXPECT_EQ(stream_of(old).created_ticks, 50u);
  EXPECT_EQ(stream_of(old).stack, 5u);
  stream_destroyed(thread(), 0x7000, 200);
  EXPECT_NE(stream_of(old).flags & format::kStreamDestroyed, 0u);
  EXPECT_EQ(stream_of(old).destroyed_ticks, 200u);
  stream_created(thread(), 0x7000, 6, 300);
  const auto& young = run(0x7000, 400);
  EXPECT_NE(old.stream, young.stream);
  mark_completed(stream_mark(thread(), 0x7000), 500);
  EXPECT_TRUE(finished(young));
  EXPECT_FALSE(finished(old));
}

TEST_F(Streams, ThatNeverCarriedAnythingMakeRoom) {
  const auto& kept = run(kNcclStream, 100);
  for (uint64_t i = 0; i < 1000; ++i) {
    stream_created(thread(), 0x10000 + i * 16, 0, i);
    stream_destroyed(thread(), 0x10000 + i * 16, i);
  }
  EXPECT_EQ(world_.stat(format::Stat::StreamsFull), 0u);
  EXPECT_EQ(stream_of(kept).handle_tag, kNcclStream + 1);
  for (uint64_t i = 0; i < 1000; ++i) {
    stream_created(thread(), 0x90000 + i * 16, 0, i);
  }
  EXPECT_EQ(streams_in_use(), world_.sizes().streams);
  EXPECT_EQ(world_.stat(format::Stat::StreamsFull), 1000 + 1 - world_.sizes().streams);
}

TEST_F(Streams, UnknownHandlesDoNoHarm) {
  stream_destroyed(thread(), 0xdead0, 1);
  event_destroyed(0xdead0);
  mark_completed(event_mark(0xdead0), 1);
  mark_completed(stream_mark(thread(), 0xdead0), 1);
  stream_waits(thread(), 0xdead0, 0xbeef0);
  EXPECT_EQ(streams_in_use(), 0u) << "what carries nothing takes no room";
}

}  // namespace
}  // namespace traintrace
