// uses: state
// What NCCL's reports come to, in whatever order its threads deliver them.
#include "interpose/gpu/plugin.h"

#include <gtest/gtest.h>

#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using format::CallId;
using format::OperationProgress;
using testing_world::World;

constexpr uint64_t kComm = 0x1000;

class Plugin : public testing::Test {
 protected:
  Plugin() {
    unsigned char id[128] = {7};
    CommunicatorArguments arguments{};
    arguments.origin = format::kInitRank;
    arguments.unique_id = id;
    arguments.size = 2;
    const uint32_t number = communicator_entered(world.thread(), arguments);
    communicator_ready(world.thread(), number, kComm, 0, 1);
  }
  ~Plugin() override { g_gpu_progress = GpuProgress::kObserve; }

  static World make_world() {
    g_gpu_progress = GpuProgress::kPlugin;
    testing_world::Sizes sizes;
    sizes.progress = true;
    return World(sizes);
  }

  // The call of an operation, as NCCL reports it; null reports nothing.
  OperationRef call(uint64_t* reported, uint64_t count = 8) {
    OperationArguments arguments{};
    arguments.call = CallId::ncclAllReduce;
    arguments.collective = true;
    arguments.communicator = kComm;
    arguments.count = count;
    arguments.peer = -1;
    arguments.stream = 0x5000;
    arguments.ticks = ++ticks;
    const OperationRef ref = operation_entered(world.thread(), arguments);
    *reported = plugin_call_begins();
    operation_left(world.thread(), ref, 0, ++ticks);
    return ref;
  }
  // 0 nothing is said, 1 enqueued, 2 reached, 3 finished, 4 reached but unclear.
  int state(const OperationRef& ref) {
    const auto index = ref.operation - world.table<format::Operation>(format::kOperations);
    const OperationProgress& said =
        world.table<OperationProgress>(format::kOperationProgress)[index];
    if (said.launch == 0 || said.index_low != ref.operation->index_low) {
      return 0;
    }
    return (said.flags & format::kSeenFinished) != 0  ? 3
           : (said.flags & format::kShared) != 0      ? 4
           : (said.flags & format::kSeenReached) != 0 ? 2
                                                      : 1;
  }

  World world = make_world();
  uint64_t ticks = 100;
};

TEST_F(Plugin, CountsChannels) {
  uint64_t reported = 0;
  const OperationRef ref = call(&reported);
  ASSERT_NE(reported, 0u);
  const uint64_t task = plugin_task_begins(reported, 2);
  EXPECT_EQ(state(ref), 0);  // no channel was ever reported: silence says nothing
  const uint64_t first = plugin_channel_begins(task);
  EXPECT_EQ(state(ref), 2);
  plugin_event_ends(first);
  EXPECT_EQ(state(ref), 4);  // one of two is done, the other one may be anywhere
  const uint64_t second = plugin_channel_begins(task);
  EXPECT_EQ(state(ref), 2);
  plugin_event_ends(second);
  EXPECT_EQ(state(ref), 3);
  plugin_event_ends(task);
  plugin_event_ends(reported);
  EXPECT_EQ(state(ref), 3);
}

TEST_F(Plugin, SilenceCountsOnceChannelsWereReported) {
  uint64_t reported = 0;
  call(&reported);
  plugin_event_ends(plugin_channel_begins(plugin_task_begins(reported, 1)));
  const OperationRef next = call(&reported);
  EXPECT_EQ(state(next), 0);
  plugin_task_begins(reported, 1);
  EXPECT_EQ(state(next), 1);
}

TEST_F(Plugin, TasksOfOneCallAddUp) {
  uint64_t reported = 0;
  const OperationRef ref = call(&reported);
  const uint64_t one = plugin_task_begins(reported, 1);
  const uint64_t two = plugin_task_begins(reported, 1);
  const uint64_t channel = plugin_channel_begins(one);
  plugin_event_ends(channel);
  EXPECT_EQ(state(ref), 4);
  plugin_event_ends(plugin_channel_begins(two));
  EXPECT_EQ(state(ref), 3);
}

TEST_F(Plugin, ReportsOfEarlierLapsAreDropped) {
  uint64_t old = 0;
  call(&old);
  const uint64_t old_task = plugin_task_begins(old, 1);
  OperationRef ref{};
  uint64_t reported = 0;
  for (uint32_t i = 0; i < format::kRecentOperations; ++i) {
    ref = call(&reported);
  }
  plugin_event_ends(plugin_channel_begins(old_task));
  EXPECT_NE(state(ref), 3);
  EXPECT_NE(state(ref), 2);
}

TEST_F(Plugin, AnAbortFreezes) {
  uint64_t done = 0;
  uint64_t reached = 0;
  const OperationRef first = call(&done);
  plugin_event_ends(plugin_channel_begins(plugin_task_begins(done, 1)));
  const OperationRef second = call(&reached);
  const uint64_t channel = plugin_channel_begins(plugin_task_begins(reached, 1));
  communicator_ending(world.thread(), kComm, CommunicatorEnd::kAbort, 0, 500);
  plugin_event_ends(channel);
  EXPECT_EQ(state(first), 3);
  EXPECT_EQ(state(second), 2);
  EXPECT_NE(first.operation->flags & format::kFinished, 0);
}

TEST_F(Plugin, WhatDoesNotRunIsNotFollowed) {
  uint64_t reported = 1;
  call(&reported, 0);
  EXPECT_EQ(reported, 0u);
  EXPECT_EQ(plugin_task_begins(0, 1), 0u);
  EXPECT_EQ(plugin_channel_begins(0), 0u);
  plugin_event_ends(0);
}

TEST_F(Plugin, MoreThanCanBeCountedIsUnknown) {
  uint64_t reported = 0;
  const OperationRef ref = call(&reported);
  uint64_t task = 0;
  for (int i = 0; i < 40; ++i) {
    task = plugin_task_begins(reported, 255);
  }
  plugin_event_ends(plugin_channel_begins(task));
  EXPECT_EQ(state(ref), 0);
}

TEST_F(Plugin, NothingIsFollowedInAForkedChild) {
  uint64_t reported = 0;
  call(&reported);
  const uint64_t task = plugin_task_begins(reported, 1);
  plugin_drop();
  EXPECT_EQ(plugin_channel_begins(task), 0u);
  plugin_event_ends(task);
}

}  // namespace
}  // namespace traintrace
