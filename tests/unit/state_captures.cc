// uses: state
// Operations in CUDA graphs: counted when they run.
#include <gtest/gtest.h>

#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using format::CallId;
using testing_world::World;

constexpr uint64_t kComm = 0x1000;
constexpr uint64_t kStream = 0x5000;
constexpr uint64_t kOther = 0x6000;
constexpr uint64_t kEvent = 0x8000;
constexpr uint64_t kGraph = 0xa000;
constexpr uint64_t kExec = 0xb000;

class Captures : public testing::Test {
 protected:
  Captures() {
    unsigned char id[128] = {1};
    CommunicatorArguments arguments{};
    arguments.origin = format::kInitRank;
    arguments.unique_id = id;
    arguments.size = 2;
    arguments.device = 0;
    number_ = communicator_entered(thread(), arguments);
    communicator_ready(thread(), number_, kComm, 0, 1);
  }

  ThreadState& thread() { return world_.thread(); }
  format::Communicator& communicator() { return world_.communicator(number_); }

  const format::Operation& run(uint64_t stream, uint64_t count, int result = 0) {
    OperationArguments arguments{};
    arguments.call = CallId::ncclAllReduce;
    arguments.collective = true;
    arguments.communicator = kComm;
    arguments.count = count;
    arguments.data_type = 7;
    arguments.peer = -1;
    arguments.stream = stream;
    arguments.ticks = ++now_;
    const OperationRef ref = operation_entered(thread(), arguments);
    operation_left(thread(), ref, result, ++now_);
    return *ref.operation;
  }
  void capture(std::initializer_list<uint64_t> counts, uint64_t graph = kGraph) {
    capture_began(thread(), kStream);
    for (const uint64_t count : counts) {
      run(kStream, count);
    }
    capture_ended(thread(), kStream, graph);
  }
  void launch(uint64_t exec = kExec, uint64_t stream = kStream) {
    now_ += 2;
    graph_launched(thread(), exec, stream, now_ - 1, now_);
  }

  World world_;
  uint32_t number_;
  uint64_t now_ = 100;
};

TEST_F(Captures, CountAtEachLaunch) {
  capture_began(thread(), kStream);
  const auto& captured = run(kStream, 8);
  EXPECT_EQ(captured.flags, format::kCaptured | format::kLaunched);
  EXPECT_EQ(captured.sequence, 0u);
  EXPECT_EQ(captured.position, 0u);
  run(kStream, 16);
  capture_ended(thread(), kStream, kGraph);
  EXPECT_EQ(communicator().collectives, 0u);
  graph_instantiated(thread(), kExec, kGraph);
  graph_destroyed(kGraph);
  launch();
  launch();
  EXPECT_EQ(communicator().collectives, 4u);
  EXPECT_EQ(communicator().operations, 6u);
  const format::Operation& last = world_.last_operation(number_);
  EXPECT_EQ(last.flags, format::kReplayed | format::kLaunched);
  EXPECT_EQ(last.sequence, 4u);
  EXPECT_EQ(last.count, 16u);
  EXPECT_EQ(last.enter_ticks, now_ - 1);
  EXPECT_EQ(last.leave_ticks, now_);
  EXPECT_EQ(last.position, 4u);
  mark_completed(stream_mark(thread(), kStream), 900);
  EXPECT_GE(world_.table<format::Stream>(format::kStreams)[last.stream - 1].completed,
            last.position);
  const auto& eager = run(kStream, 1);
  EXPECT_EQ(eager.flags, format::kLaunched) << "the capture is over";
  EXPECT_EQ(eager.sequence, 5u);
}

TEST_F(Captures, HaveTheHashOfTheSameCallsMadeOneByOne) {
  capture({8, 16});
  graph_instantiated(thread(), kExec, kGraph);
  launch();
  const uint64_t replayed = communicator().hash;
  const uint32_t first = number_;
  unsigned char id[128] = {2};
  CommunicatorArguments arguments{};
  arguments.origin = format::kInitRank;
  arguments.unique_id = id;
  number_ = communicator_entered(thread(), arguments);
  communicator_ready(thread(), number_, kComm, 0, 1);
  run(kStream, 8);
  run(kStream, 16);
  EXPECT_EQ(communicator().hash, replayed);
  EXPECT_NE(first, number_);
}

TEST_F(Captures, ReachStreamsThatJoinByAnEvent) {
  capture_began(thread(), kStream);
  event_recorded(kEvent, event_recording(thread(), kEvent, kStream));
  stream_waits(thread(), kOther, kEvent);
  EXPECT_EQ(run(kOther, 8).flags, format::kCaptured | format::kLaunched);
  capture_ended(thread(), kStream, kGraph);
  EXPECT_EQ(run(kOther, 8).flags, format::kLaunched);
  graph_instantiated(thread(), kExec, kGraph);
  launch();
  EXPECT_EQ(communicator().collectives, 2u);
}

TEST_F(Captures, OfAGroupKeepTheirOrder) {
  capture_began(thread(), kStream);
  group_started(thread());
  run(kStream, 1);
  run(kStream, 2);
  group_ended(thread(), 0, ++now_);
  capture_ended(thread(), kStream, kGraph);
  graph_instantiated(thread(), kExec, kGraph);
  launch();
  EXPECT_EQ(world_.operation(number_, 2).count, 1u);
  EXPECT_EQ(world_.operation(number_, 3).count, 2u);
  EXPECT_EQ(communicator().collectives, 2u);
}

TEST_F(Captures, ThatFailLeaveNothing) {
  capture_began(thread(), kStream);
  run(kStream, 8, /*ncclInvalidArgument*/ 4);
  run(kStream, 8);
  capture_ended(thread(), kStream, 0);
  EXPECT_EQ(run(kStream, 1).flags, format::kLaunched);
  graph_instantiated(thread(), kExec, kGraph);
  launch();
  EXPECT_EQ(communicator().collectives, 1u);
}

TEST_F(Captures, OfCallsThatWereRefusedAreNotRepeated) {
  capture_began(thread(), kStream);
  run(kStream, 8, /*ncclInvalidArgument*/ 4);
  run(kStream, 16);
  capture_ended(thread(), kStream, kGraph);
  graph_instantiated(thread(), kExec, kGraph);
  launch();
  EXPECT_EQ(communicator().collectives, 1u);
  EXPECT_EQ(world_.last_operation(number_).count, 16u);
}

TEST_F(Captures, HandlesOfGraphsAreUsedAgain) {
  capture({8, 8, 8});
  graph_instantiated(thread(), kExec, kGraph);
  capture({1});  // the same graph handle
  graph_instantiated(thread(), kExec + 16, kGraph);
  launch(kExec + 16);
  EXPECT_EQ(communicator().collectives, 1u);
  launch();
  EXPECT_EQ(communicator().collectives, 4u);
  graph_destroyed(kGraph);
  graph_instantiated(thread(), kExec, kGraph);  // one that was built by hand, at the same address
  launch();
  EXPECT_EQ(communicator().collectives, 4u);
  graph_exec_destroyed(kExec + 16);
  launch(kExec + 16);
  EXPECT_EQ(communicator().collectives, 4u);
}

TEST_F(Captures, ComeAndGoForEver) {
  for (int i = 0; i < 20000; ++i) {
    capture({1, 2, 3});
    graph_instantiated(thread(), kExec, kGraph);
    graph_destroyed(kGraph);
    if (i % 100 == 0) {
      launch();
    }
    graph_exec_destroyed(kExec);
  }
  EXPECT_EQ(world_.stat(format::Stat::CapturesFull), 0u);
  EXPECT_EQ(communicator().collectives, 600u);
}

TEST_F(Captures, ThatFindNoRoomAreCountedAndDoNotRun) {
  for (uint64_t i = 0; i < 1100; ++i) {
    capture({1}, kGraph + i * 16);
  }
  EXPECT_GT(world_.stat(format::Stat::CapturesFull), 0u);
  EXPECT_EQ(communicator().collectives, 0u);
  EXPECT_EQ(run(kStream, 1).flags, format::kLaunched);
}

TEST_F(Captures, EventsOfAnOlderCaptureJoinNothingNew) {
  capture_began(thread(), kStream);
  event_recorded(kEvent, event_recording(thread(), kEvent, kStream));
  capture_ended(thread(), kStream, 0);
  capture_began(thread(), kStream);  // gets the same place
  stream_waits(thread(), kOther, kEvent);
  capture_ended(thread(), kStream, kGraph);
  EXPECT_EQ(run(kOther, 1).sequence, 1u);
}

TEST_F(Captures, AGraphInAGraphIsNotCounted) {
  capture({1});
  graph_instantiated(thread(), kExec, kGraph);
  capture_began(thread(), kStream);
  launch();
  capture_ended(thread(), kStream, kGraph + 16);
  EXPECT_EQ(communicator().collectives, 0u);
  EXPECT_EQ(world_.stat(format::Stat::CapturesFull), 1u);
}

}  // namespace
}  // namespace traintrace
