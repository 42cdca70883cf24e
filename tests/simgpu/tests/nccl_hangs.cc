// test: timeout=300 labels=multiprocess
// Where the real library hangs, this one does; and it goes on once what was missing comes.
#include <atomic>
#include <thread>

#include "tests/nccl_world.h"

namespace nccl_test {
namespace {

constexpr size_t kCount = 1000;
constexpr size_t kEagerBytes =
    size_t{8} * 512 * 1024;  // what a connected send moves without its receiver

enum Stage { kStart, kEntered, kReturned, kDone };
enum Gate { kClosed, kOpen, kWide };

void all_reduce(const Rank& rank, float* buffer, size_t count = kCount) {
  NCCL_OK(ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, rank.comm, rank.stream));
}

// Makes the connections that later calls on the communicator need.
void warm_up(const Rank& rank, float* buffer, int ranks) {
  all_reduce(rank, buffer);
  all_reduce(rank, buffer, 100'000);
  NCCL_OK(ncclGroupStart());
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != rank.rank) {
      NCCL_OK(ncclSend(buffer, 1, ncclFloat, peer, rank.comm, rank.stream));
      NCCL_OK(ncclRecv(buffer, 1, ncclFloat, peer, rank.comm, rank.stream));
    }
  }
  NCCL_OK(ncclGroupEnd());
  rank.sync();
}

// The name by which the ranks of `id` find each other, see NCCL.md; other tests have theirs.
bool name_exists(const ncclUniqueId& id) {
  uint64_t hash = 0xdeadbeef;
  for (const char byte : id.internal) {
    hash = (hash ^ hash >> 32) * 0x8db3db47fa2994ad + static_cast<uint64_t>(int64_t{byte});
  }
  char path[64];
  snprintf(path, sizeof path, "/dev/shm/simgpu-nccl-%016llx",
           static_cast<unsigned long long>(hash));
  return access(path, F_OK) == 0;
}

TEST(Hangs, InitWaitsForTheLastMember) {
  World world(3, [](const Process& process) {
    if (process.index == 2) {
      process.wait_for_gate(kOpen);
    }
    process.reach(kEntered);
    Rank rank = Rank::join(process.id(), process.count, process.index);
    process.reach(kDone);
    rank.leave();
  });
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  EXPECT_TRUE(world.hangs_at(1, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.all_succeed());
}

TEST(Hangs, FirstUseBlocksTheHostLaterUsesTheStream) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* buffer = device_array(kCount, 1.0F);
    if (process.index == 1) {
      process.wait_for_gate(kOpen);
    }
    process.reach(kEntered);
    all_reduce(rank, buffer);  // connects
    rank.sync();
    process.reach(kReturned);
    if (process.index == 1) {
      process.wait_for_gate(kWide);
    }
    all_reduce(rank, buffer);
    NEED(process.index == 1 || cudaStreamQuery(rank.stream) == cudaErrorNotReady);
    process.reach(kDone);  // the call has returned, the stream waits
    rank.sync();
    NEED(all_equal(buffer, kCount, 4.0F));
    process.reach(kDone + 1);
    rank.leave();
  });
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.hangs_at(0, kDone));
  world.open_gate(kWide);
  EXPECT_TRUE(world.all_succeed());
}

// Two communicators, one stream: rank 1 uses them in the other order if `swap`.
void use_two_communicators(const Process& process, bool swap) {
  Rank first = Rank::join(process.id(0), process.count, process.index);
  Rank second = Rank::join(process.id(1), process.count, process.index);
  second.stream = first.stream;
  float* buffer = device_array(100'000, 1.0F);
  warm_up(first, buffer, process.count);
  warm_up(second, buffer, process.count);
  const bool other = swap && process.index == 1;
  all_reduce(other ? second : first, buffer);
  all_reduce(other ? first : second, buffer);
  process.reach(kEntered);
  first.sync();
  process.reach(kDone);
}

TEST(Hangs, OrdersThatDifferOnOneStream) {
  World wrong(2, [](const Process& process) { use_two_communicators(process, true); });
  World right(2, [](const Process& process) { use_two_communicators(process, false); });
  EXPECT_TRUE(right.all_succeed());
  EXPECT_TRUE(wrong.hangs_at(0, kEntered));
  EXPECT_TRUE(wrong.hangs_at(1, kEntered));
}

TEST(Hangs, OrdersThatDifferOnOneCommunicator) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* buffer = device_array(100'000, 1.0F);
    warm_up(rank, buffer, process.count);
    if (process.index == 0) {
      all_reduce(rank, buffer, 100'000);
      NCCL_OK(ncclBcast(buffer, 100'000, ncclFloat, 0, rank.comm, rank.stream));
    } else {
      NCCL_OK(ncclBcast(buffer, 100'000, ncclFloat, 0, rank.comm, rank.stream));
      all_reduce(rank, buffer, 100'000);
    }
    process.reach(kEntered);
    rank.sync();
    process.reach(kDone);
  });
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  EXPECT_TRUE(world.hangs_at(1, kEntered));
}

TEST(Hangs, SendWaitsForItsReceiverBeyondTheEagerCapacity) {
  constexpr size_t kFits = kEagerBytes / sizeof(float);
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* buffer = device_array(kFits + 1, 1.0F + static_cast<float>(process.index));
    warm_up(rank, device_array(100'000, 0.0F), process.count);
    if (process.index == 0) {
      NCCL_OK(ncclSend(buffer, kFits, ncclFloat, 1, rank.comm, rank.stream));
      rank.sync();  // nobody has received it yet
      process.reach(kEntered);
      process.wait_for_gate(kOpen);
      NCCL_OK(ncclSend(buffer, kFits + 1, ncclFloat, 1, rank.comm, rank.stream));
      process.reach(kReturned);
      rank.sync();
      process.reach(kDone);
    } else {
      process.wait_for_gate(kOpen);
      NCCL_OK(ncclRecv(buffer, kFits, ncclFloat, 0, rank.comm, rank.stream));
      rank.sync();
      NEED(all_equal(buffer, kFits, 1.0F));
      process.wait_for_gate(kWide);
      NCCL_OK(ncclRecv(buffer, kFits + 1, ncclFloat, 0, rank.comm, rank.stream));
      rank.sync();
      NEED(all_equal(buffer, kFits + 1, 1.0F));
    }
    rank.leave();
  });
  EXPECT_TRUE(world.reaches(0, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.hangs_at(0, kReturned));
  world.open_gate(kWide);
  EXPECT_TRUE(world.all_succeed());
}

TEST(Hangs, ReceiveWaitsForItsSender) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* buffer = device_array(kCount, 1.0F + static_cast<float>(process.index));
    if (process.index == 1) {
      process.wait_for_gate(kOpen);
      NCCL_OK(ncclSend(buffer, kCount, ncclFloat, 0, rank.comm, rank.stream));
    } else {
      process.reach(kEntered);
      NCCL_OK(ncclRecv(buffer, kCount, ncclFloat, 1, rank.comm, rank.stream));  // connects
    }
    rank.sync();
    process.reach(kDone);
    NEED(all_equal(buffer, kCount, 2.0F));
    rank.leave();
  });
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.all_succeed());
}

// Both send first: beyond what fits in between, neither comes to its receive.
void send_then_receive(const Process& process, size_t count) {
  Rank rank = Rank::join(process.id(), process.count, process.index);
  float* buffer = device_array(count, 1.0F);
  warm_up(rank, device_array(100'000, 0.0F), process.count);
  NCCL_OK(ncclSend(buffer, count, ncclFloat, 1 - process.index, rank.comm, rank.stream));
  NCCL_OK(ncclRecv(buffer, count, ncclFloat, 1 - process.index, rank.comm, rank.stream));
  process.reach(kEntered);
  rank.sync();
  process.reach(kDone);
}

TEST(Hangs, TwoLargeSendsThatWaitForEachOther) {
  World large(2, [](const Process& process) {
    send_then_receive(process, kEagerBytes / sizeof(float) + 1);
  });
  World small(
      2, [](const Process& process) { send_then_receive(process, kEagerBytes / sizeof(float)); });
  EXPECT_TRUE(small.all_succeed());
  EXPECT_TRUE(large.hangs_at(0, kEntered));
  EXPECT_TRUE(large.hangs_at(1, kEntered));
}

TEST(Hangs, GroupThatIsNotClosedLaunchesNothing) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* buffer = device_array(100'000, 1.0F);
    warm_up(rank, buffer, process.count);
    if (process.index == 0) {
      NCCL_OK(ncclGroupStart());
      all_reduce(rank, buffer);
      rank.sync();  // there is nothing to wait for
      process.reach(kReturned);
      process.wait_for_gate(kOpen);
      NCCL_OK(ncclGroupEnd());
    } else {
      all_reduce(rank, buffer);
      process.reach(kEntered);
    }
    rank.sync();
    process.reach(kDone);
    rank.leave();
  });
  EXPECT_TRUE(world.reaches(0, kReturned));
  EXPECT_TRUE(world.hangs_at(1, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.all_succeed());
}

TEST(Hangs, KernelBehindABlockedStream) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* buffer = device_array(100'000, 1.0F);
    warm_up(rank, buffer, process.count);
    if (process.index == 0) {
      const auto wait = [](void* user) { static_cast<const Process*>(user)->wait_for_gate(kOpen); };
      CUDA_OK(cudaLaunchHostFunc(rank.stream, wait, const_cast<Process*>(&process)));
    }
    all_reduce(rank, buffer);
    process.reach(kEntered);
    rank.sync();
    process.reach(kDone);
    rank.leave();
  });
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  EXPECT_TRUE(world.hangs_at(1, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.all_succeed());
}

TEST(Hangs, KilledRankReleasesNobodyAndLeavesNothingBehind) {
  World world(3, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* buffer = device_array(100'000, 1.0F);
    warm_up(rank, buffer, process.count);
    if (process.index == 2) {
      process.reach(kEntered);
      pause();
    }
    all_reduce(rank, buffer);
    process.reach(kEntered);
    rank.sync();
    process.reach(kDone);
  });
  EXPECT_TRUE(world.reaches(0, kEntered));
  EXPECT_TRUE(world.reaches(2, kEntered));
  world.kill(2);
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  EXPECT_TRUE(world.hangs_at(1, kEntered));
  EXPECT_FALSE(name_exists(world.board().ids[0]));
}

// Waits at most half a minute for `condition` to be `wanted`.
template <class Condition>
bool becomes(bool wanted, Condition condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition() == wanted) {
      return true;
    }
    usleep(10'000);
  }
  return false;
}

TEST(Hangs, LeftoverOfAnUnfinishedInitIsRemovedByTheNext) {
  World unfinished(2, [](const Process& process) {
    process.reach(kEntered);
    if (process.index == 0) {
      Rank::join(process.id(), process.count, process.index);
    }
  });
  // Entered is before the name is made, and a busy machine is slow to make it.
  EXPECT_TRUE(becomes(true, [&] { return name_exists(unfinished.board().ids[0]); }));
  EXPECT_TRUE(unfinished.hangs_at(0, kEntered));
  unfinished.kill(0);
  World next(1, [](const Process& process) { Rank::join(process.id(), 1, 0).leave(); });
  EXPECT_TRUE(next.all_succeed());
  // An init of somebody else may be the one that is just removing it.
  EXPECT_TRUE(becomes(false, [&] { return name_exists(unfinished.board().ids[0]); }));
  EXPECT_FALSE(name_exists(next.board().ids[0]));
}

TEST(Hangs, CallWithCountZeroTakesNoPart) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* buffer = device_array(kCount, 1.0F);
    if (process.index == 0) {
      // Would connect, that is wait for the other rank, if they were anything.
      all_reduce(rank, buffer, 0);
      NCCL_OK(ncclSend(buffer, 0, ncclFloat, 1, rank.comm, rank.stream));
      NCCL_OK(ncclAllGather(buffer, buffer, 0, ncclFloat, rank.comm, rank.stream));
      rank.sync();
    }
    all_reduce(rank, buffer);
    rank.sync();
    NEED(all_equal(buffer, kCount, 2.0F));
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Hangs, DeadLinkStopsOneCollectiveOnAllRanksUntilAbort) {
  World world(2,
              [](const Process& process) {
                Rank rank = Rank::join(process.id(), process.count, process.index);
                float* buffer = device_array(kCount, 1.0F);
                all_reduce(rank, buffer);
                rank.sync();
                all_reduce(rank, buffer);
                process.reach(kEntered);
                process.wait_for_gate(kOpen);
                NEED_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
                NCCL_OK(ncclCommAbort(rank.comm));
                rank.sync();
              },
              {{"SIMGPU_NCCL_STALL", "1@2"}});
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  EXPECT_TRUE(world.hangs_at(1, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.all_succeed());
}

// A watchdog aborts while the program launches: what is launched has no peer and must not be waited
// for.
TEST(Hangs, AbortBesideALaunchReturns) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* buffer = device_array(kCount, 1.0F);
    for (int round = 0; round < 300; ++round) {
      ncclComm_t child = nullptr;
      NCCL_OK(ncclCommSplit(rank.comm, 0, process.index, &child, nullptr));
      // Connected, so that the next one need not wait for that.
      NCCL_OK(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, child, rank.stream));
      rank.sync();
      if (process.index == 0) {
        std::atomic<bool> go{false};
        std::thread launches([&] {
          CUDA_OK(cudaSetDevice(rank.device));
          while (!go) {
          }
          // Refused where the abort was first.
          ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, child, rank.stream);
        });
        go = true;
        for (int i = 0; i < round * 5; ++i) {
          std::atomic_signal_fence(std::memory_order_seq_cst);
        }
        NCCL_OK(ncclCommAbort(child));
        launches.join();
      } else {
        NCCL_OK(ncclCommAbort(child));
      }
      rank.sync();
    }
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

// Two communicators on streams of their own, of which each rank begins another one.
void begin_crosswise(const Process& process) {
  Rank rank = Rank::join(process.id(0), 2, process.index);
  Rank other = Rank::join(process.id(1), 2, process.index);
  float* buffer = device_array(kCount, 1.0F);
  float* other_buffer = device_array(kCount, 1.0F);
  all_reduce(rank, buffer);
  rank.sync();
  all_reduce(other, other_buffer);
  other.sync();
  const auto begin = [&](bool first) {
    all_reduce(first ? rank : other, first ? buffer : other_buffer);
  };
  begin(process.index == 0);
  sleep(1);  // nothing shows that it has begun
  begin(process.index != 0);
  process.reach(kEntered);
  rank.sync();
  other.sync();
}

TEST(Hangs, KernelsWaitForRoomOnTheirDevice) {
  World full(2, begin_crosswise, {{"SIMGPU_NCCL_RESIDENT", "1"}});
  EXPECT_TRUE(full.hangs_at(0, kEntered));
  EXPECT_TRUE(full.hangs_at(1, kEntered));
  World roomy(2, begin_crosswise, {{"SIMGPU_NCCL_RESIDENT", "2"}});
  EXPECT_TRUE(roomy.all_succeed());
  World unlimited(2, begin_crosswise);
  EXPECT_TRUE(unlimited.all_succeed());
}

}  // namespace
}  // namespace nccl_test
