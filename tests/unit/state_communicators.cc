// uses: state
// Who a communicator is, on each of its ranks alike.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "format/hashes.h"
#include "interpose/tables/communicators.h"
#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using testing_world::World;

// Of unique_id() and of its first split with color 2, computed from NCCL's source by hand, in
// another language.
constexpr uint64_t kParentHash = 0x6afe1cc17717e1f4;
constexpr uint64_t kChildHash = 0xac32d37ee10c9664;

struct UniqueId {
  unsigned char bytes[128];
};
const UniqueId& unique_id(int seed = 0) {
  static std::map<int, UniqueId> ids;
  UniqueId& id = ids[seed];
  for (int i = 0; i < 128; ++i) {
    id.bytes[i] = static_cast<unsigned char>(i + seed);
  }
  return id;
}

CommunicatorArguments init_rank(const UniqueId& id, int size, int rank) {
  CommunicatorArguments arguments{};
  arguments.origin = format::kInitRank;
  arguments.unique_id = id.bytes;
  arguments.size = size;
  arguments.rank = rank;
  arguments.device = -1;
  arguments.ticks = 10;
  return arguments;
}

CommunicatorArguments split(uint64_t parent, int color, int key = 0) {
  CommunicatorArguments arguments{};
  arguments.origin = format::kSplit;
  arguments.parent = parent;
  arguments.size = -1;
  arguments.rank = -1;
  arguments.color = color;
  arguments.key = key;
  arguments.device = -1;
  arguments.ticks = 20;
  return arguments;
}

CommunicatorArguments shrink(uint64_t parent, const std::vector<int>& excluded) {
  CommunicatorArguments arguments = split(parent, 0);
  arguments.origin = format::kShrink;
  arguments.excluded = excluded.data();
  arguments.excluded_count = static_cast<int32_t>(excluded.size());
  return arguments;
}

uint32_t made(World& world, const CommunicatorArguments& arguments, uint64_t handle,
              int result = 0) {
  const uint32_t number = communicator_entered(world.thread(), arguments);
  communicator_ready(world.thread(), number, handle, result, 30);
  return number;
}

TEST(Communicators, HaveTheHashOfNccl) {
  World world;
  const uint32_t parent = made(world, init_rank(unique_id(), 4, 1), 0x1000);
  EXPECT_EQ(world.communicator(parent).nccl_hash, kParentHash);
  EXPECT_EQ(world.communicator(parent).id, kParentHash);
  const uint32_t child = made(world, split(0x1000, 2), 0x2000);
  EXPECT_EQ(world.communicator(child).nccl_hash, kChildHash);
  EXPECT_EQ(world.communicator(child).id, kChildHash);
}

TEST(Communicators, AreInTheTableWhileTheirInitHangs) {
  World world;
  const uint32_t number = communicator_entered(world.thread(), init_rank(unique_id(), 4, 1));
  const format::Communicator& element = world.communicator(number);
  EXPECT_EQ(element.used, 1u);
  EXPECT_EQ(element.size, 4);
  EXPECT_EQ(element.rank, 1);
  EXPECT_EQ(element.flags & format::kInitDone, 0u);
  EXPECT_EQ(communicator_number(0x1000), 0u);
  communicator_ready(world.thread(), number, 0x1000, 0, 40);
  EXPECT_NE(element.flags & format::kInitDone, 0u);
  EXPECT_EQ(element.ready_ticks, 40u);
  EXPECT_EQ(communicator_number(0x1000), number);
}

// What two processes record of one history, rank by rank.
std::vector<uint64_t> ids_of_history(int rank) {
  World world;
  std::vector<uint64_t> ids;
  const auto note = [&](uint32_t number) { ids.push_back(world.communicator(number).id); };
  note(made(world, init_rank(unique_id(), 4, rank), 0x1000));
  note(made(world, init_rank(unique_id(1), 4, rank), 0x1100));
  note(made(world, init_rank(unique_id(), 4, rank), 0x1200));  // the id a second time
  note(made(world, split(0x1000, rank % 2), 0x2000));
  made(world, split(0x1000, rank == 0 ? -1 : 0), rank == 0 ? 0 : 0x2100);
  note(made(world, split(0x1000, 5), 0x2200));
  if (rank != 3) {
    const std::vector<int> sorted = {3};
    note(made(world, shrink(0x2200, sorted), 0x3000));
    note(made(world, shrink(0x2200, sorted), 0x3100));  // and again
  }
  return ids;
}

TEST(Communicators, HaveOneIdOnAllRanks) {
  const std::vector<uint64_t> first = ids_of_history(0);
  const std::vector<uint64_t> other = ids_of_history(2);
  EXPECT_EQ(first, other);
  for (size_t i = 0; i < first.size(); ++i) {
    for (size_t j = i + 1; j < first.size(); ++j) {
      EXPECT_NE(first[i], first[j]) << i << " and " << j;
    }
  }
  EXPECT_NE(ids_of_history(1)[3], first[3]) << "another color";
  EXPECT_EQ(ids_of_history(1)[4], first[4]) << "the split without a color counts too";
  EXPECT_EQ(ids_of_history(3)[4], first[4]);
}

CommunicatorArguments grow(uint64_t parent, const UniqueId* id, int size, int rank = -1) {
  CommunicatorArguments arguments = split(parent, 0);
  arguments.origin = format::kGrow;
  arguments.unique_id = id == nullptr ? nullptr : id->bytes;
  arguments.size = size;
  arguments.rank = rank;
  return arguments;
}

TEST(Communicators, ThatGrowHaveOneIdOnAllRanksOfTheParent) {
  World world;
  made(world, init_rank(unique_id(), 4, 1), 0x1000);
  const uint32_t by_id = made(world, grow(0x1000, &unique_id(7), 6), 0x2000);
  const format::Communicator first = world.communicator(by_id);
  EXPECT_EQ(first.rank, 1) << "as in the parent";
  EXPECT_EQ(first.size, 6);
  const uint32_t again = made(world, grow(0x1000, &unique_id(8), 6), 0x2100);
  EXPECT_NE(world.communicator(again).id, first.id);
  const uint32_t larger = made(world, grow(0x1000, &unique_id(9), 8), 0x2200);
  EXPECT_NE(world.communicator(larger).id, first.id);

  World other;
  made(other, init_rank(unique_id(), 4, 3), 0x1000);
  const uint32_t without = made(other, grow(0x1000, nullptr, 6), 0x2000);
  EXPECT_EQ(other.communicator(without).id, first.id);
  EXPECT_EQ(other.communicator(without).nccl_hash, 0U);
  EXPECT_EQ(other.communicator(made(other, grow(0x1000, nullptr, 6), 0x2100)).id,
            world.communicator(again).id);
}

TEST(Communicators, ThatAreJoinedAreKnownByTheUniqueId) {
  World world;
  made(world, init_rank(unique_id(), 4, 1), 0x1000);
  const uint32_t grown = made(world, grow(0x1000, &unique_id(7), 6), 0x2000);
  World joining;
  const uint32_t joined = made(joining, grow(0, &unique_id(7), 6, 5), 0x1000);
  const format::Communicator& element = joining.communicator(joined);
  EXPECT_EQ(element.nccl_hash, world.communicator(grown).nccl_hash);
  EXPECT_EQ(element.parent, 0U);
  EXPECT_EQ(element.rank, 5);
}

TEST(Communicators, OfThreadsShareOneUniqueId) {
  World world;
  uint32_t numbers[3];
  for (int rank = 0; rank < 3; ++rank) {
    numbers[rank] = communicator_entered(world.thread(static_cast<uint32_t>(rank)),
                                         init_rank(unique_id(), 3, rank));
  }
  EXPECT_EQ(world.communicator(numbers[0]).id, world.communicator(numbers[1]).id);
  EXPECT_EQ(world.communicator(numbers[0]).id, world.communicator(numbers[2]).id);
}

TEST(Communicators, OfOneAddressForAllAreToldApartBySize) {
  setenv("NCCL_COMM_ID", "10.0.0.1:2000", 1);
  World world;
  const uint32_t all = made(world, init_rank(unique_id(), 4, 0), 0x1000);
  const uint32_t pair = made(world, init_rank(unique_id(), 2, 0), 0x1100);
  const uint32_t again = made(world, init_rank(unique_id(), 4, 0), 0x1200);
  unsetenv("NCCL_COMM_ID");
  EXPECT_NE(world.communicator(all).id, world.communicator(pair).id);
  EXPECT_NE(world.communicator(all).id, world.communicator(again).id);
  EXPECT_EQ(world.communicator(pair).ordinal, 1u);
  EXPECT_EQ(world.communicator(again).ordinal, 2u);
}

TEST(Communicators, ThatDisagreeAboutTheirSizeAreStillOne) {
  World world;
  const uint32_t right = made(world, init_rank(unique_id(), 4, 0), 0x1000);
  const uint32_t wrong = made(world, init_rank(unique_id(), 3, 1), 0x1100);
  EXPECT_EQ(world.communicator(right).id, world.communicator(wrong).id);
}

TEST(Communicators, RefusedUsesDoNotCount) {
  World world;
  made(world, init_rank(unique_id(), 4, 0), 0, /*ncclInvalidArgument*/ 4);
  const uint32_t good = made(world, init_rank(unique_id(), 4, 0), 0x1000);
  EXPECT_EQ(world.communicator(good).ordinal, 1u);
  EXPECT_EQ(world.communicator(good).id, kParentHash);
  EXPECT_NE(world.communicator(good - 1).flags & format::kInitFailed, 0u);
  made(world, split(0x1000, 0), 0, /*ncclInvalidUsage*/ 5);
  const uint32_t child = made(world, split(0x1000, 2), 0x2000);
  EXPECT_EQ(world.communicator(child).id, kChildHash);
}

TEST(Communicators, SplitsRecordWhatTheRankFollowsFrom) {
  World world;
  const uint32_t parent = made(world, init_rank(unique_id(), 4, 3), 0x1000);
  const uint32_t none = made(world, split(0x1000, -1), 0);
  const uint32_t child = made(world, split(0x1000, 7, -3), 0x2000);
  EXPECT_NE(world.communicator(none).flags & format::kNoColor, 0u);
  const format::Communicator& element = world.communicator(child);
  EXPECT_EQ(element.parent, world.communicator(parent).id);
  EXPECT_EQ(element.parent_index, parent);
  EXPECT_EQ(element.ordinal, 2u);
  EXPECT_EQ(element.color, 7);
  EXPECT_EQ(element.key, -3);
  EXPECT_EQ(element.rank, -1);
  EXPECT_EQ(element.size, -1);
}

TEST(Communicators, ShrinksTellTheirRankAndDoNotMindTheOrder) {
  World world;
  made(world, init_rank(unique_id(), 8, 5), 0x1000);
  made(world, init_rank(unique_id(), 8, 6), 0x1100);
  const std::vector<int> one = {7, 0, 3};
  const std::vector<int> two = {0, 3, 7};
  const uint32_t first = made(world, shrink(0x1000, one), 0x2000);
  const uint32_t second = made(world, shrink(0x1100, two), 0x2100);
  EXPECT_EQ(world.communicator(first).id, world.communicator(second).id);
  EXPECT_EQ(world.communicator(first).size, 5);
  EXPECT_EQ(world.communicator(first).rank, 3);
  EXPECT_EQ(world.communicator(second).rank, 4);
  const uint32_t again = made(world, shrink(0x1000, two), 0x2200);
  EXPECT_NE(world.communicator(again).id, world.communicator(first).id);
  EXPECT_EQ(world.communicator(again).nccl_hash, world.communicator(first).nccl_hash)
      << "as in NCCL";
}

TEST(Communicators, ShrinksWithoutAListDoNoHarm) {
  World world;
  made(world, init_rank(unique_id(), 8, 5), 0x1000);
  CommunicatorArguments arguments = shrink(0x1000, {});
  arguments.excluded = nullptr;
  arguments.excluded_count = 3;
  made(world, arguments, 0, /*ncclInvalidArgument*/ 4);
  const std::vector<int> some = {1};
  EXPECT_EQ(world.communicator(made(world, shrink(0x1000, some), 0x2000)).ordinal, 1u);
}

TEST(Communicators, OfOneCallShareAnId) {
  World world;
  const auto init_all = [&](int index, uint64_t ticks) {
    CommunicatorArguments arguments{};
    arguments.origin = format::kInitAll;
    arguments.size = 2;
    arguments.init_all_index = index;
    arguments.device = index;
    arguments.ticks = ticks;
    return made(world, arguments, ticks * 16 + static_cast<uint64_t>(index));
  };
  const uint32_t a0 = init_all(0, 100);
  const uint32_t a1 = init_all(1, 100);
  const uint32_t b0 = init_all(0, 200);
  const uint32_t b1 = init_all(1, 200);
  EXPECT_EQ(world.communicator(a0).id, world.communicator(a1).id);
  EXPECT_EQ(world.communicator(b0).id, world.communicator(b1).id);
  EXPECT_NE(world.communicator(a0).id, world.communicator(b0).id);
  EXPECT_EQ(world.communicator(b1).rank, 1);
  EXPECT_EQ(world.communicator(b1).device, 1);
}

TEST(Communicators, OfAGroupAreThereAtItsEnd) {
  World world;
  ThreadState& thread = world.thread();
  made(world, init_rank(unique_id(), 4, 0), 0x1000);
  group_started(thread);
  const uint32_t init = made(world, init_rank(unique_id(3), 2, 0), 0x1100);
  const uint32_t child = communicator_entered(thread, split(0x1000, 0));
  const uint64_t where = 0x2000;
  communicator_deferred(thread, child, &where);
  EXPECT_EQ(communicator_number(0x1100), init) << "operations may follow in the same group";
  EXPECT_EQ(world.communicator(init).flags & format::kInitDone, 0u);
  group_ended(thread, 0, 70);
  EXPECT_NE(world.communicator(init).flags & format::kInitDone, 0u);
  EXPECT_EQ(world.communicator(init).ready_ticks, 70u);
  EXPECT_EQ(communicator_number(0x2000), child);
}

TEST(Communicators, OfAFailedGroupAreNotThere) {
  World world;
  ThreadState& thread = world.thread();
  group_started(thread);
  const uint32_t init = made(world, init_rank(unique_id(), 2, 0), 0x1100);
  group_ended(thread, /*ncclSystemError*/ 2, 70);
  EXPECT_EQ(world.communicator(init).flags & format::kInitDone, 0u);
  EXPECT_NE(world.communicator(init).flags & format::kInitFailed, 0u);
  EXPECT_EQ(world.communicator(init).async_error, 2);
}

TEST(Communicators, ThatDoNotBlockAreReadyWhenTheySaySo) {
  World world;
  ThreadState& thread = world.thread();
  CommunicatorArguments arguments = init_rank(unique_id(), 4, 0);
  arguments.non_blocking = true;
  const uint32_t parent = made(world, arguments, 0x1000, /*ncclInProgress*/ 7);
  EXPECT_EQ(world.communicator(parent).flags, uint32_t{format::kNonBlocking});
  communicator_error(thread, 0x1000, 7, 50);
  EXPECT_EQ(world.communicator(parent).flags, uint32_t{format::kNonBlocking});
  communicator_error(thread, 0x1000, 0, 60);
  EXPECT_NE(world.communicator(parent).flags & format::kInitDone, 0u);
  const uint32_t child = communicator_entered(thread, split(0x1000, 0));
  EXPECT_NE(world.communicator(child).flags & format::kNonBlocking, 0u) << "inherited";
  uint64_t where = 0;
  communicator_deferred(thread, child, &where);
  where = 0x2000;
  communicator_error(thread, 0x1000, 0, 70);
  EXPECT_EQ(communicator_number(0x2000), child);
}

TEST(Communicators, KeepTheirErrors) {
  World world;
  const uint32_t number = made(world, init_rank(unique_id(), 4, 0), 0x1000);
  communicator_error(world.thread(), 0x1000, /*ncclRemoteError*/ 6, 50);
  communicator_error(world.thread(), 0x1000, /*ncclInternalError*/ 3, 60);
  communicator_error(world.thread(), 0x1000, /*ncclRemoteError*/ 6, 70);
  EXPECT_NE(world.communicator(number).flags & format::kAsyncError, 0u);
  EXPECT_EQ(world.communicator(number).async_error, 6);
  EXPECT_EQ(world.communicator(number).error_ticks, 50u);
  communicator_error(world.thread(), 0x9999, 6, 50);  // nobody's
}

TEST(Communicators, EndAndTheirHandleIsSomebodyElses) {
  World world;
  ThreadState& thread = world.thread();
  const uint32_t first = made(world, init_rank(unique_id(), 4, 0), 0x1000);
  communicator_ending(thread, 0x1000, CommunicatorEnd::kFinalize, 3, 40);
  communicator_ended(thread, 0x1000, CommunicatorEnd::kFinalize, 0);
  communicator_ending(thread, 0x1000, CommunicatorEnd::kDestroy, 4, 50);
  const uint32_t second = made(world, init_rank(unique_id(1), 4, 0), 0x1000);  // another thread
  communicator_ended(thread, 0x1000, CommunicatorEnd::kDestroy, 0);
  const format::Communicator& ended = world.communicator(first);
  EXPECT_EQ(ended.handle, 0u);
  EXPECT_EQ(ended.ended_ticks, 50u);
  EXPECT_EQ(ended.ended_stack, 4u);
  EXPECT_EQ(ended.flags, uint32_t{format::kInitDone} | format::kFinalized | format::kDestroyed);
  EXPECT_EQ(world.communicator(second).handle, 0x1000u);
  EXPECT_EQ(communicator_number(0x1000), second);
}

TEST(Communicators, UsedBehindTheirEndSayWhoseHandleItWas) {
  World world;
  ThreadState& thread = world.thread();
  made(world, init_rank(unique_id(1), 4, 0), 0x2000);
  const uint32_t ended = made(world, init_rank(unique_id(), 4, 0), 0x1000);
  communicator_ending(thread, 0x1000, CommunicatorEnd::kAbort, 4, 50);
  communicator_ended(thread, 0x1000, CommunicatorEnd::kAbort, 0);
  const uint32_t used = number_of_communicator(thread, 0x1000, 60);
  ASSERT_NE(used, 0u);
  EXPECT_NE(used, ended);
  EXPECT_NE(world.communicator(used).flags & format::kAfterEnd, 0u);
  EXPECT_EQ(world.communicator(used).parent_index, ended);
  EXPECT_EQ(world.stat(format::Stat::UnknownCommunicator), 0u);
  const uint32_t unknown = number_of_communicator(thread, 0x3000, 70);
  EXPECT_EQ(world.communicator(unknown).flags & format::kAfterEnd, 0u);
}

TEST(Communicators, NeverSeenCreatedAreEnteredWhenUsed) {
  World world;
  const CommunicatorArguments arguments = split(0x7000, 1);
  const uint32_t child = made(world, arguments, 0x7100);
  EXPECT_EQ(world.stat(format::Stat::UnknownCommunicator), 1u);
  const uint32_t parent = communicator_number(0x7000);
  ASSERT_NE(parent, 0u);
  EXPECT_EQ(world.communicator(parent).origin, uint32_t{format::kUnknownOrigin});
  EXPECT_EQ(world.communicator(child).parent, world.communicator(parent).id);
}

TEST(Communicators, TooManyAreCounted) {
  testing_world::Sizes sizes;
  sizes.communicators = 4;
  World world(sizes);
  for (uint64_t i = 0; i < 6; ++i) {
    made(world, init_rank(unique_id(static_cast<int>(i)), 4, 0), 0x1000 + i * 16);
  }
  EXPECT_EQ(world.stat(format::Stat::CommunicatorsFull), 2u);
  EXPECT_EQ(communicator_number(0x1000 + 5 * 16), 0u);
  EXPECT_NE(communicator_number(0x1000 + 3 * 16), 0u);
}

TEST(Communicators, NamesAreCut) {
  World world;
  CommunicatorArguments arguments = init_rank(unique_id(), 4, 0);
  arguments.name = "a name that is longer than what there is room for";
  const uint32_t number = made(world, arguments, 0x1000);
  EXPECT_STREQ(world.communicator(number).name, "a name that is longer than what");
}

}  // namespace
}  // namespace traintrace
