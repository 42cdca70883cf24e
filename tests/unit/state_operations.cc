// uses: state
// Sequences, rolling hashes, the newest operations, groups.
#include <gtest/gtest.h>

#include "format/hashes.h"
#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using format::CallId;
using testing_world::World;

constexpr uint64_t kComm = 0x1000;
constexpr uint64_t kStream = 0x5000;
constexpr int kInvalidArgument = 4;
constexpr int kInProgress = 7;

uint32_t make_communicator(World& world, uint64_t handle = kComm, bool non_blocking = false) {
  unsigned char id[128] = {};
  std::memcpy(id, &handle, sizeof handle);
  CommunicatorArguments arguments{};
  arguments.origin = format::kInitRank;
  arguments.unique_id = id;
  arguments.size = 2;
  arguments.device = 0;
  arguments.non_blocking = non_blocking;
  const uint32_t number = communicator_entered(world.thread(), arguments);
  communicator_ready(world.thread(), number, handle, 0, 1);
  return number;
}

OperationArguments all_reduce(uint64_t count, uint64_t ticks, uint64_t comm = kComm) {
  OperationArguments arguments{};
  arguments.call = CallId::ncclAllReduce;
  arguments.collective = true;
  arguments.communicator = comm;
  arguments.count = count;
  arguments.data_type = 7;
  arguments.reduction = 0;
  arguments.peer = -1;
  arguments.stream = kStream;
  arguments.stack = 9;
  arguments.ticks = ticks;
  return arguments;
}

OperationArguments transfer(CallId call, int peer, uint64_t count, uint64_t ticks) {
  OperationArguments arguments = all_reduce(count, ticks);
  arguments.call = call;
  arguments.collective = false;
  arguments.receive = call == CallId::ncclRecv;
  arguments.reduction = -1;
  arguments.peer = peer;
  return arguments;
}

OperationRef run(World& world, const OperationArguments& arguments, int result = 0) {
  const OperationRef ref = operation_entered(world.thread(), arguments);
  operation_left(world.thread(), ref, result, arguments.ticks + 5);
  return ref;
}

TEST(Operations, AreWholeWhileTheCallHangs) {
  World world;
  const uint32_t number = make_communicator(world);
  const OperationRef ref = operation_entered(world.thread(), all_reduce(1024, 100));
  EXPECT_EQ(ref.communicator, number);
  EXPECT_EQ(ref.sequence, 1u);
  const format::Operation& operation = world.operation(number, 0);
  EXPECT_EQ(ref.operation, &operation);
  EXPECT_EQ(operation.enter_ticks, 100u);
  EXPECT_EQ(operation.leave_ticks, 0u);
  EXPECT_EQ(operation.sequence, 1u);
  EXPECT_EQ(operation.count, 1024u);
  EXPECT_EQ(operation.call, static_cast<uint16_t>(CallId::ncclAllReduce));
  EXPECT_EQ(operation.data_type, 7);
  EXPECT_EQ(operation.reduction, 0);
  EXPECT_EQ(operation.peer, -1);
  EXPECT_EQ(operation.stack, 9u);
  EXPECT_EQ(operation.flags, 0);
  EXPECT_EQ(operation.position, 0u);
  EXPECT_EQ(world.communicator(number).collectives, 1u);
  EXPECT_EQ(world.communicator(number).last_ticks, 100u);
  operation_left(world.thread(), ref, 0, 110);
  EXPECT_EQ(operation.leave_ticks, 110u);
  EXPECT_EQ(operation.flags, format::kLaunched);
  EXPECT_EQ(operation.position, 1u);
  EXPECT_EQ(world.table<format::Stream>(format::kStreams)[operation.stream - 1].issued, 1u);
}

TEST(Operations, HashIsWhatTheDocumentSays) {
  World world;
  const uint32_t number = make_communicator(world);
  run(world, all_reduce(1024, 100));
  // Recomputed here on purpose: other readers depend on it.
  const auto mix = [](uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9fb21c651e98df25ULL;
    return hash ^ (hash >> 29);
  };
  uint64_t name = 0xcbf29ce484222325ULL;
  for (const char c : std::string("ncclAllReduce")) {
    name = (name ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  const uint64_t arguments = 7 | uint64_t{0} << 8 | uint64_t{0xffffffff} << 32;
  EXPECT_EQ(world.communicator(number).hash, mix(mix(mix(0, name), 1024), arguments));
}

TEST(Operations, HashDiffersWhereACallDiffers) {
  const auto hash_of = [](auto change) {
    World world;
    const uint32_t number = make_communicator(world);
    OperationArguments second = all_reduce(64, 200);
    change(second);
    run(world, all_reduce(1024, 100));
    run(world, second);
    return world.communicator(number).hash;
  };
  const uint64_t plain = hash_of([](OperationArguments&) {});
  EXPECT_EQ(plain, hash_of([](OperationArguments& a) { a.ticks = 999; }));
  EXPECT_EQ(plain, hash_of([](OperationArguments& a) { a.stack = 1; }));
  EXPECT_NE(plain, hash_of([](OperationArguments& a) { a.count = 65; }));
  EXPECT_NE(plain, hash_of([](OperationArguments& a) { a.data_type = 8; }));
  EXPECT_NE(plain, hash_of([](OperationArguments& a) { a.reduction = 1; }));
  EXPECT_NE(plain, hash_of([](OperationArguments& a) { a.peer = 0; }));
  // Handles of user-made reductions differ between ranks.
  EXPECT_EQ(hash_of([](OperationArguments& a) { a.reduction = 5; }),
            hash_of([](OperationArguments& a) { a.reduction = 1234; }));
}

TEST(Operations, NamesThatMeanTheSameHashTheSame) {
  EXPECT_EQ(format::call_name_hash("ncclBcast"), format::call_name_hash("ncclBroadcast"));
  EXPECT_EQ(format::call_name_hash("pncclAllReduce"), format::call_name_hash("ncclAllReduce"));
  EXPECT_NE(format::call_name_hash("ncclReduce"), format::call_name_hash("ncclAllReduce"));
  EXPECT_NE(format::call_name_hash("ncclBcasts"), format::call_name_hash("ncclBroadcast"));
}

TEST(Operations, ThatAreRefusedDoNotCount) {
  World world;
  const uint32_t number = make_communicator(world);
  run(world, all_reduce(1, 100));
  const uint64_t hash = world.communicator(number).hash;
  const OperationRef refused = run(world, all_reduce(2, 200), kInvalidArgument);
  EXPECT_EQ(world.communicator(number).collectives, 1u);
  EXPECT_EQ(world.communicator(number).hash, hash);
  EXPECT_EQ(refused.operation->flags, format::kFailed);
  const OperationRef next = run(world, all_reduce(3, 300));
  EXPECT_EQ(next.sequence, 2u);

  World fresh;
  const uint32_t same = make_communicator(fresh);
  run(fresh, all_reduce(2, 200), kInvalidArgument);
  EXPECT_EQ(fresh.communicator(same).collectives, 0u);
  EXPECT_EQ(fresh.communicator(same).hash, 0u);
}

TEST(Operations, OfNothingCountButAreMarked) {
  World world;
  make_communicator(world);
  const OperationRef ref = run(world, all_reduce(0, 100));
  EXPECT_EQ(ref.sequence, 1u);
  EXPECT_EQ(ref.operation->flags, format::kEmpty | format::kLaunched);
  EXPECT_EQ(ref.operation->position, 0u) << "NCCL puts nothing on the stream";
}

TEST(Operations, CheckpointsTellWhereRanksParted) {
  const auto checkpoints_of = [](uint64_t differs_at) {
    World world;
    const uint32_t number = make_communicator(world);
    for (uint64_t i = 1; i <= 5000; ++i) {
      run(world, all_reduce(i == differs_at ? 1 : 2, i * 10));
    }
    const format::Communicator& element = world.communicator(number);
    EXPECT_EQ(element.collectives, 5000u);
    EXPECT_EQ(element.latest[0].sequence, 5000u);
    EXPECT_EQ(element.latest[0].hash, element.hash);
    EXPECT_EQ(element.latest[1].sequence, 4999u);
    return std::vector<format::Checkpoint>(std::begin(element.checkpoints),
                                           std::end(element.checkpoints));
  };
  const auto good = checkpoints_of(0);
  const auto bad = checkpoints_of(4000);
  for (size_t i = 0; i < good.size(); ++i) {
    ASSERT_EQ(good[i].sequence, bad[i].sequence);
    ASSERT_EQ(good[i].sequence / format::kCheckpointEvery % format::kCheckpoints, i);
    ASSERT_GT(good[i].sequence, 5000 - format::kCheckpointEvery * format::kCheckpoints);
    EXPECT_EQ(good[i].hash == bad[i].hash, good[i].sequence < 4000) << good[i].sequence;
  }
}

TEST(Operations, TransfersCountPerPeerAndDirectionWithOneHashAtBothEnds) {
  World world;
  const uint32_t number = make_communicator(world);
  EXPECT_EQ(run(world, transfer(CallId::ncclSend, 1, 10, 100)).sequence, 1u);
  EXPECT_EQ(run(world, transfer(CallId::ncclSend, 1, 20, 110)).sequence, 2u);
  EXPECT_EQ(run(world, transfer(CallId::ncclRecv, 1, 10, 120)).sequence, 1u);
  EXPECT_EQ(run(world, transfer(CallId::ncclSend, 2, 10, 130)).sequence, 1u);
  EXPECT_EQ(run(world, transfer(CallId::ncclRecv, 1, 20, 140)).sequence, 2u);
  EXPECT_EQ(world.communicator(number).collectives, 0u);
  EXPECT_EQ(world.communicator(number).operations, 5u);
  const format::Peer* peers = world.table<format::Peer>(format::kPeers);
  EXPECT_EQ(peers[0].communicator, number);
  EXPECT_EQ(peers[0].is_receive, 0u);
  EXPECT_EQ(peers[0].peer, 1);
  EXPECT_EQ(peers[0].operations, 2u);
  EXPECT_EQ(peers[0].last_ticks, 110u);
  EXPECT_EQ(peers[1].is_receive, 1u);
  EXPECT_EQ(peers[1].hash, peers[0].hash);
  EXPECT_EQ(peers[2].peer, 2);
  EXPECT_EQ(peers[3].communicator, 0u);
}

TEST(Operations, RefusedTransfersDoNotCount) {
  World world;
  make_communicator(world);
  run(world, transfer(CallId::ncclSend, 1, 10, 100));
  const uint64_t hash = world.table<format::Peer>(format::kPeers)[0].hash;
  run(world, transfer(CallId::ncclSend, 1, 20, 110), kInvalidArgument);
  EXPECT_EQ(world.table<format::Peer>(format::kPeers)[0].operations, 1u);
  EXPECT_EQ(world.table<format::Peer>(format::kPeers)[0].hash, hash);
}

TEST(Operations, TooManyPeersAreCounted) {
  testing_world::Sizes sizes;
  sizes.peers = 4;
  World world(sizes);
  make_communicator(world);
  for (int peer = 0; peer < 6; ++peer) {
    const OperationRef ref = run(world, transfer(CallId::ncclSend, peer, 1, 100));
    EXPECT_EQ(ref.sequence, peer < 4 ? 1u : 0u);
  }
  EXPECT_EQ(world.stat(format::Stat::PeersFull), 2u);
}

TEST(Operations, OfAGroupAreLaunchedAtItsOutermostEnd) {
  World world;
  ThreadState& thread = world.thread();
  make_communicator(world);
  group_started(thread, 71);
  group_started(thread, 72);
  EXPECT_EQ(thread.slot->group_depth, 2u);
  EXPECT_EQ(thread.slot->group_stack, 71u);
  const OperationRef first = run(world, all_reduce(1, 100));
  group_ended(thread, 0, 150);
  const OperationRef second = run(world, all_reduce(1, 200));
  EXPECT_EQ(first.operation->flags, format::kGrouped);
  EXPECT_EQ(first.operation->position, 0u);
  EXPECT_EQ(second.sequence, 2u);
  group_ended(thread, 0, 300);
  EXPECT_EQ(thread.slot->group_depth, 0u);
  EXPECT_EQ(first.operation->flags, format::kGrouped | format::kLaunched);
  EXPECT_EQ(first.operation->position, 1u);
  EXPECT_EQ(second.operation->position, 2u);
  group_ended(thread, 0, 400);  // one too many, as after arming inside a group
  EXPECT_EQ(thread.group_depth, 0u);
}

TEST(Operations, OfOneGroupHaveItsNumber) {
  World world;
  make_communicator(world);
  const OperationRef alone = run(world, all_reduce(1, 50));
  EXPECT_EQ(alone.operation->group, 0u);
  group_started(world.thread());
  const OperationRef first = run(world, all_reduce(1, 100));
  group_started(world.thread());
  const OperationRef nested = run(world, all_reduce(1, 110));
  group_ended(world.thread(), 0, 120);
  group_ended(world.thread(), 0, 130);
  group_started(world.thread());
  const OperationRef next = run(world, all_reduce(1, 200));
  group_ended(world.thread(), 0, 230);
  EXPECT_NE(first.operation->group, 0u);
  EXPECT_EQ(nested.operation->group, first.operation->group);
  EXPECT_NE(next.operation->group, 0u);
  EXPECT_NE(next.operation->group, first.operation->group);
  EXPECT_EQ(first.operation->reduction, 0);
}

TEST(Operations, OfAFailedGroupFail) {
  World world;
  make_communicator(world);
  group_started(world.thread());
  const OperationRef ref = run(world, all_reduce(1, 100));
  group_ended(world.thread(), /*ncclUnhandledCudaError*/ 1, 150);
  EXPECT_EQ(ref.operation->flags, format::kGrouped | format::kFailed);
  EXPECT_EQ(ref.operation->position, 0u);
}

TEST(Operations, OfALargeGroupKeepTheNewest) {
  World world;
  const uint32_t number = make_communicator(world);
  group_started(world.thread());
  constexpr uint64_t kCount = kMaxGroupedOperations + 500;
  for (uint64_t i = 0; i < kCount; ++i) {
    run(world, all_reduce(1, 100 + i));
  }
  group_ended(world.thread(), 0, 9000);
  uint64_t before = 0;
  for (uint64_t n = kCount - format::kRecentOperations; n < kCount; ++n) {
    const format::Operation& operation = world.operation(number, n);
    EXPECT_EQ(operation.sequence, n + 1);
    EXPECT_EQ(operation.index_low, n);
    EXPECT_EQ(operation.flags, format::kGrouped | format::kLaunched);
    EXPECT_GT(operation.position, before);
    before = operation.position;
  }
}

TEST(Operations, ThatAnotherThreadLaunchesAreFollowedOnceItHas) {
  World world;
  const uint32_t number = make_communicator(world, kComm, true);
  const OperationRef ref = run(world, all_reduce(1, 100), kInProgress);
  EXPECT_EQ(ref.operation->flags, format::kUntracked);
  EXPECT_EQ(ref.operation->position, 0u);
  EXPECT_EQ(world.communicator(number).collectives, 1u);
  const uint64_t early = stream_mark(world.thread(), kStream);
  communicator_error(world.thread(), kComm, kInProgress, 150);
  EXPECT_EQ(ref.operation->flags, format::kUntracked);
  communicator_error(world.thread(), kComm, 0, 160);
  EXPECT_EQ(ref.operation->flags, format::kLaunched);
  EXPECT_EQ(ref.operation->position, 1u);
  mark_completed(early, 200);
  const format::Stream* streams = world.table<format::Stream>(format::kStreams);
  EXPECT_EQ(streams[ref.operation->stream - 1].completed, 0u);
  communicator_error(world.thread(), kComm, 0, 210);
  EXPECT_EQ(ref.operation->position, 1u) << "once";
  const OperationRef done = run(world, all_reduce(1, 300), 0);
  EXPECT_EQ(done.operation->position, 2u) << "NCCL launched it itself";
}

TEST(Operations, OfAnOpenGroupAreNotSettled) {
  World world;
  make_communicator(world, kComm, true);
  group_started(world.thread());
  const OperationRef ref = run(world, all_reduce(1, 100));
  communicator_error(world.thread(), kComm, 0, 150);
  EXPECT_EQ(ref.operation->position, 0u);
  group_ended(world.thread(), kInProgress, 200);
  EXPECT_EQ(ref.operation->flags, format::kGrouped | format::kUntracked);
  communicator_error(world.thread(), kComm, 0, 250);
  EXPECT_EQ(ref.operation->flags, format::kGrouped | format::kLaunched);
  EXPECT_EQ(ref.operation->position, 1u);
}

TEST(Operations, OnUnknownCommunicatorsCountThere) {
  World world;
  const OperationRef ref = run(world, all_reduce(1, 100, 0x7777));
  EXPECT_EQ(ref.sequence, 1u);
  EXPECT_EQ(run(world, all_reduce(1, 100, 0x7777)).sequence, 2u);
  EXPECT_EQ(world.stat(format::Stat::UnknownCommunicator), 1u);
  EXPECT_EQ(run(world, all_reduce(1, 100, 0)).operation, nullptr);
}

TEST(Operations, OfAnAbortedCommunicatorAreFrozenAsTheyWere) {
  World world;
  const uint32_t number = make_communicator(world);
  const OperationRef done = run(world, all_reduce(1, 100));
  mark_completed(stream_mark(world.thread(), kStream), 150);
  const OperationRef stuck = run(world, all_reduce(1, 200));
  const uint64_t mark = stream_mark(world.thread(), kStream);
  const OperationRef calling = operation_entered(world.thread(1), all_reduce(1, 250));
  communicator_ending(world.thread(), kComm, CommunicatorEnd::kAbort, 5, 300);
  operation_left(world.thread(1), calling, 0, 350);
  mark_completed(mark, 400);  // the kernel left, because it was told to
  EXPECT_NE(done.operation->flags & format::kFinished, 0);
  EXPECT_EQ(stuck.operation->flags & format::kFinished, 0);
  EXPECT_EQ(stuck.operation->position, format::kNeverReached);
  EXPECT_EQ(calling.operation->position, format::kNeverReached);
  EXPECT_NE(world.communicator(number).flags & format::kAborted, 0u);
  EXPECT_EQ(world.communicator(number).ended_ticks, 300u);
}

// A handler that never returned (siglongjmp) left a call between two stores: its operation never
// came to be, and what follows must hash as it does on the other ranks.
TEST(Operations, LeftBetweenHashAndCountAreNone) {
  World world;
  const uint32_t number = make_communicator(world);
  const uint32_t whole = make_communicator(world, 0x2000);
  run(world, all_reduce(1, 100));
  run(world, all_reduce(1, 100, 0x2000));
  world.communicator(number).hash ^= 12345;
  run(world, all_reduce(2, 200));
  run(world, all_reduce(2, 200, 0x2000));
  EXPECT_EQ(world.communicator(number).hash, world.communicator(whole).hash);
  EXPECT_EQ(world.communicator(number).collectives, 2u);
}

}  // namespace
}  // namespace traintrace
