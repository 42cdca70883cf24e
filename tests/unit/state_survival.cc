// test: timeout=300
// uses: state
// A reader finds every table in order: while it is written, and after its writer was killed at any
// instruction.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <random>
#include <thread>

#include "format/hashes.h"
#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using format::CallId;
using testing_world::Sizes;
using testing_world::World;

constexpr uint64_t kComm = 0x1000;

uint32_t make_communicator(World& world) {
  unsigned char id[128] = {1};
  CommunicatorArguments arguments{};
  arguments.origin = format::kInitRank;
  arguments.unique_id = id;
  arguments.size = 2;
  arguments.device = 0;
  const uint32_t number = communicator_entered(world.thread(), arguments);
  communicator_ready(world.thread(), number, kComm, 0, 1);
  return number;
}

// Everything about operation i follows from i, so that a mixture of two is seen.
void run(World& world, uint64_t i, uint32_t thread = 0) {
  OperationArguments arguments{};
  const bool transfer = i % 3 == 2;
  arguments.call = transfer ? CallId::ncclSend : CallId::ncclAllReduce;
  arguments.collective = !transfer;
  arguments.communicator = kComm;
  arguments.count = i;
  arguments.data_type = static_cast<int32_t>(i % 10);
  arguments.reduction = static_cast<int32_t>(i % 5);
  arguments.peer = static_cast<int32_t>(i % 7);
  arguments.stream = 0x5000 + i % 3 * 16;
  arguments.stack = static_cast<uint32_t>(i);
  arguments.ticks = i;
  ThreadState& state = world.thread(thread);
  const OperationRef ref = operation_entered(state, arguments);
  operation_left(state, ref, i % 11 == 0 ? 4 : 0, i + 1);
  allocated(state, CallId::cudaMalloc, 0x10000 + i % 50 * 512, 0x10000 + i % 50 * 512, 0, 0, i);
  freed(state, CallId::cudaFree, 0x10000 + (i + 25) % 50 * 512);
  stream_created(state, 0x900000 + i % 20 * 16, static_cast<uint32_t>(i % 20), 1);
  stream_destroyed(state, 0x900000 + i % 20 * 16, 2);
  define_fact(state, "key", "values of some length", i % 20);
}

void check_operation(const format::Operation& operation) {
  const uint64_t i = operation.enter_ticks;
  EXPECT_EQ(operation.count, i);
  EXPECT_EQ(operation.data_type, i % 10);
  EXPECT_EQ(operation.reduction, static_cast<int32_t>(i % 5));
  EXPECT_EQ(operation.peer, static_cast<int32_t>(i % 7));
  EXPECT_EQ(operation.stack, static_cast<uint32_t>(i));
  EXPECT_TRUE(operation.leave_ticks == 0 || operation.leave_ticks == i + 1);
}

uint64_t hash_after(uint64_t hash, uint64_t i) {
  return format::rolling_hash(hash, format::call_name_hash("ncclAllReduce"), i,
                              static_cast<int>(i % 10), static_cast<int>(i % 5),
                              static_cast<int>(i % 7));
}

// What the rolling hash after `sequence` collectives must be.
class Expected {
 public:
  uint64_t at(uint64_t sequence) {
    while (hashes_.size() <= sequence) {
      while (i_ % 3 == 2 || i_ % 11 == 0) {
        ++i_;
      }
      hashes_.push_back(hash_after(hashes_.back(), i_));
      ++i_;
    }
    return hashes_[sequence];
  }

 private:
  std::vector<uint64_t> hashes_{0};
  uint64_t i_ = 1;
};

uint64_t newest_operation(World& world, uint32_t number) {
  uint64_t newest = 0;
  for (uint64_t n = 0; n < format::kRecentOperations; ++n) {
    newest = std::max(newest, world.operation(number, n).enter_ticks);
  }
  return newest;
}

void check_tables(World& world, uint32_t number, Expected& expected) {
  const format::Communicator& communicator = world.communicator(number);
  const uint64_t sequence = communicator.collectives;
  const format::Checkpoint& latest = communicator.latest[sequence % 2];
  // The operation that was being counted, or being taken back, may be there already or still.
  if (latest.sequence == sequence && sequence != 0) {
    // The last one may be refused, and not have been taken back yet.
    const uint64_t newest = newest_operation(world, number);
    const bool undecided = newest % 11 == 0 || newest % 11 == 10;
    const uint64_t refused = newest % 11 == 0 ? newest : newest + 1;
    if (!undecided || latest.hash != hash_after(expected.at(sequence - 1), refused)) {
      EXPECT_EQ(latest.hash, expected.at(sequence));
    }
  } else {
    const format::Checkpoint& other = communicator.latest[(sequence + 1) % 2];
    EXPECT_EQ(latest.sequence, 0u);
    EXPECT_TRUE(sequence == 0 || other.sequence + 1 == sequence) << other.sequence;
  }
  for (const format::Checkpoint& point : communicator.checkpoints) {
    if (point.sequence != 0 && point.sequence <= sequence) {
      EXPECT_EQ(point.hash, expected.at(point.sequence));
    }
  }
  uint32_t whole = 0;
  for (uint64_t n = 0; n < format::kRecentOperations; ++n) {
    if (world.operation(number, n).enter_ticks != 0) {
      check_operation(world.operation(number, n));
      ++whole;
    }
  }
  if (communicator.operations > format::kRecentOperations) {
    EXPECT_GE(whole, format::kRecentOperations - 1);
  }
  for (uint32_t i = 0; i < world.sizes().allocations; ++i) {
    const auto& element = world.table<format::Allocation>(format::kAllocations)[i];
    if (element.address > 1) {
      EXPECT_EQ(element.address, element.bytes);
    }
  }
  for (uint32_t i = 0; i < world.sizes().streams; ++i) {
    const auto& element = world.table<format::Stream>(format::kStreams)[i];
    if (element.handle_tag > 0x900000) {
      EXPECT_EQ((element.handle_tag - 1 - 0x900000) / 16, element.stack);
    }
  }
  for (const auto* head : world.definitions(format::kFact)) {
    EXPECT_EQ(reinterpret_cast<const format::FactDefinition*>(head)->key_bytes, 3u);
  }
}

TEST(Survival, OfAKillAtAnyInstruction) {
  std::mt19937_64 random(7);
  Expected expected;
  for (int round = 0; round < 200; ++round) {
    World world;
    const uint32_t number = make_communicator(world);
    const pid_t child = fork();
    if (child == 0) {
      for (uint64_t i = 1;; ++i) {
        run(world, i);
      }
    }
    usleep(static_cast<useconds_t>(200 + random() % 3000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    check_tables(world, number, expected);
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
  }
}

TEST(Survival, OfAReaderMeanwhile) {
  World world;
  const uint32_t number = make_communicator(world);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
      run(world, i);
    }
  });
  uint64_t seen = 0;
  for (uint64_t round = 0; seen < 200000; ++round) {
    const format::Operation& element = world.operation(number, round % format::kRecentOperations);
    // As docs/format.md tells a reader to do it.
    const uint64_t before = __atomic_load_n(&element.enter_ticks, __ATOMIC_ACQUIRE);
    format::Operation copy;
    auto* const words = reinterpret_cast<uint64_t*>(&copy);
    for (size_t i = 0; i < sizeof copy / 8; ++i) {
      words[i] = __atomic_load_n(reinterpret_cast<const uint64_t*>(&element) + i, __ATOMIC_RELAXED);
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    const uint64_t after = __atomic_load_n(&element.enter_ticks, __ATOMIC_RELAXED);
    if (before != 0 && before == after) {
      copy.enter_ticks = before;
      check_operation(copy);
      ++seen;
      if (testing::Test::HasFailure()) {
        break;
      }
    }
  }
  stop = true;
  writer.join();
}

TEST(Survival, OfAForkLeavesTheParentsFileAlone) {
  World world;
  const uint32_t number = make_communicator(world);
  run(world, 1);
  const pid_t child = fork();
  if (child == 0) {
    state_reset_after_fork();
    Sizes sizes;
    World own(sizes);
    const uint32_t mine = make_communicator(own);
    for (uint64_t i = 1; i < 100; ++i) {
      run(own, i);
    }
    Expected expected;
    check_tables(own, mine, expected);
    _exit(testing::Test::HasFailure() || own.communicator(mine).operations != 99 ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(world.communicator(number).operations, 1u);
  run(world, 2);
  EXPECT_EQ(world.communicator(number).operations, 2u);
}

}  // namespace
}  // namespace traintrace
