// uses: state
// A table that is full gives a new communicator the place of one that has ended: who that was, and
// which number means whom, stays known.
#include <gtest/gtest.h>

#include <set>

#include "interpose/tables/communicators.h"
#include "interpose/tables/operations.h"
#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using testing_world::World;

constexpr uint64_t kPlaces = 8;

class Places : public testing::Test {
 protected:
  static testing_world::Sizes sizes() {
    testing_world::Sizes sizes;
    sizes.communicators = static_cast<uint32_t>(kPlaces);
    sizes.peers = 16;
    sizes.progress = true;
    return sizes;
  }
  Places() : world_(sizes()) {}

  // `seed` tells unique ids apart.
  uint32_t make(uint64_t seed, uint64_t handle) {
    unsigned char id[128] = {};
    std::memcpy(id, &seed, sizeof seed);
    CommunicatorArguments arguments{};
    arguments.origin = format::kInitRank;
    arguments.unique_id = id;
    arguments.size = 2;
    arguments.device = 0;
    arguments.ticks = ++ticks_;
    const uint32_t number = communicator_entered(world_.thread(), arguments);
    communicator_ready(world_.thread(), number, handle, 0, ++ticks_);
    return number;
  }
  void end(uint64_t handle, CommunicatorEnd how = CommunicatorEnd::kDestroy) {
    communicator_ending(world_.thread(), handle, how, 0, ++ticks_);
    communicator_ended(world_.thread(), handle, how, 0);
  }
  OperationRef enter(uint64_t handle, format::CallId call, int peer = -1) {
    OperationArguments arguments{};
    arguments.call = call;
    arguments.collective = peer < 0;
    arguments.communicator = handle;
    arguments.count = 4;
    arguments.peer = peer;
    arguments.stream = 0x5000;
    arguments.ticks = ++ticks_;
    return operation_entered(world_.thread(), arguments);
  }
  OperationRef run(uint64_t handle, format::CallId call, int peer = -1) {
    const OperationRef ref = enter(handle, call, peer);
    operation_left(world_.thread(), ref, 0, ++ticks_);
    return ref;
  }
  const format::Communicator* ended(uint32_t number) {
    for (const format::DefinitionHead* head : world_.definitions(format::kEndedCommunicator)) {
      const auto* definition = reinterpret_cast<const format::EndedCommunicatorDefinition*>(head);
      if (definition->number == number) {
        return reinterpret_cast<const format::Communicator*>(definition + 1);
      }
    }
    return nullptr;
  }

  World world_;
  uint64_t ticks_ = 100;
};

TEST_F(Places, OfThoseThatEndedAreUsedAgain) {
  for (uint64_t i = 0; i < kPlaces - 1; ++i) {
    make(i, 0x100 + i);
    run(0x100 + i, format::CallId::ncclAllReduce);
  }
  std::set<uint32_t> numbers;
  constexpr uint64_t kRounds = 100;
  for (uint64_t i = 0; i < kRounds; ++i) {
    const uint32_t number = make(1000 + i, 0x9000);
    EXPECT_TRUE(numbers.insert(number).second) << number;
    EXPECT_EQ(communicator_number(0x9000), number);
    EXPECT_EQ(communicator_at(number).collectives, 0u);
    const OperationRef ref = run(0x9000, format::CallId::ncclAllReduce);
    EXPECT_EQ(ref.communicator, number);
    EXPECT_EQ(ref.sequence, 1u);
    end(0x9000);
  }
  EXPECT_EQ(world_.stat(format::Stat::CommunicatorsFull), 0u);
  EXPECT_EQ(world_.definitions(format::kEndedCommunicator).size(), kRounds - 1);
  for (const uint32_t number : numbers) {
    const format::Communicator* const before = ended(number);
    const format::Communicator& who = before == nullptr ? communicator_at(number) : *before;
    EXPECT_EQ(who.number, number);
    EXPECT_EQ(who.collectives, 1u);
    EXPECT_NE(who.ended_ticks, 0u);
  }
  for (uint64_t i = 0; i < kPlaces - 1; ++i) {  // those that live are as they were
    EXPECT_EQ(communicator_at(communicator_number(0x100 + i)).collectives, 1u);
  }
}

TEST_F(Places, OfThoseThatLiveAreNot) {
  for (uint64_t i = 0; i < kPlaces; ++i) {
    make(i, 0x100 + i);
  }
  EXPECT_EQ(make(99, 0x9000), 0u);
  EXPECT_EQ(world_.stat(format::Stat::CommunicatorsFull), 1u);
  // Nor of one whose destruction has not returned.
  communicator_ending(world_.thread(), 0x100, CommunicatorEnd::kDestroy, 0, ++ticks_);
  EXPECT_EQ(make(99, 0x9000), 0u);
  communicator_ended(world_.thread(), 0x100, CommunicatorEnd::kDestroy, 0);
  EXPECT_NE(make(99, 0x9000), 0u);
}

// What was aborted may tell why.
TEST_F(Places, OfAbortedOnesLast) {
  for (uint64_t i = 0; i < kPlaces; ++i) {
    make(i, 0x100 + i);
  }
  const uint32_t aborted = communicator_number(0x100);
  end(0x100, CommunicatorEnd::kAbort);
  end(0x101);
  make(98, 0x9000);
  EXPECT_TRUE(is_in_table(aborted));
  make(99, 0x9001);
  EXPECT_FALSE(is_in_table(aborted));
  EXPECT_NE(ended(aborted), nullptr);
}

// A unique id may be used again: which use it is makes the id, on all ranks alike.
TEST_F(Places, UsesOfAnIdAreCountedOn) {
  std::set<uint64_t> ids;
  for (uint64_t i = 0; i < 5 * kPlaces; ++i) {
    const uint32_t number = make(7, 0x9000);
    EXPECT_EQ(communicator_at(number).ordinal, i + 1);
    EXPECT_TRUE(ids.insert(communicator_at(number).id).second);
    end(0x9000);
  }
}

TEST_F(Places, PeersGoWithTheirCommunicator) {
  for (uint64_t i = 0; i < 20 * kPlaces; ++i) {
    make(i, 0x9000);
    EXPECT_EQ(run(0x9000, format::CallId::ncclSend, 1).sequence, 1u);
    EXPECT_EQ(run(0x9000, format::CallId::ncclRecv, 1).sequence, 1u);
    EXPECT_EQ(run(0x9000, format::CallId::ncclSend, 1).sequence, 2u);
    end(0x9000);
  }
  EXPECT_EQ(world_.stat(format::Stat::PeersFull), 0u);
}

// Whoever breaks NCCL's rules: the call of one that ended returns when its place is another's.
TEST_F(Places, ACallThatReturnsTooLateIsNobodyElses) {
  make(1, 0x100);
  const OperationRef late = enter(0x100, format::CallId::ncclAllReduce);
  end(0x100);
  for (uint64_t i = 0; i < kPlaces; ++i) {
    make(10 + i, 0x200 + i);
  }
  ASSERT_FALSE(is_in_table(late.communicator));
  const uint32_t heir = communicator_number(0x200 + kPlaces - 1);
  ASSERT_EQ(index_of_communicator(heir), index_of_communicator(late.communicator));
  enter(0x200 + kPlaces - 1, format::CallId::ncclAllReduce);
  operation_left(world_.thread(), late, 3, ++ticks_);
  EXPECT_EQ(communicator_at(heir).collectives, 1u);
  EXPECT_EQ(late.operation->leave_ticks, 0u);
  // Nor does a graph that was captured with it count there.
  OperationRequest captured{};
  captured.communicator = late.communicator;
  captured.call = static_cast<uint16_t>(format::CallId::ncclAllReduce);
  replay_operation(captured, 1, ticks_ + 1, ticks_ + 2);
  EXPECT_EQ(communicator_at(heir).operations, 1u);
}

}  // namespace
}  // namespace traintrace
