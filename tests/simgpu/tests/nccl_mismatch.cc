// test: timeout=300 labels=multiprocess
// Ranks that disagree about one operation: undefined in NCCL, chosen here by SIMGPU_NCCL_MISMATCH.
#include <algorithm>

#include "tests/nccl_world.h"

namespace nccl_test {
namespace {

constexpr size_t kCount = 100'000;  // an all-reduce of it takes the ring
constexpr int kRanks = 3;

enum Stage { kStart, kEntered, kDone };

using Operation = std::function<void(const Rank&, float* send, float* receive)>;

// Runs `operation` on a communicator whose ring and pairs are connected.
void run(const Process& process, const Operation& operation) {
  Rank rank = Rank::join(process.id(), process.count, process.index);
  float* send = device_array(2 * kCount * kRanks, 1.0F + static_cast<float>(process.index));
  float* receive = device_array(2 * kCount * kRanks, -1.0F);
  NCCL_OK(ncclAllReduce(send, receive, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
  NCCL_OK(ncclAlltoAll(send, receive, 1, ncclFloat, rank.comm, rank.stream));
  rank.sync();
  CUDA_OK(cudaMemsetAsync(receive, 0, 2 * kCount * kRanks * sizeof(float), rank.stream));
  operation(rank, send, receive);
  process.reach(kEntered);
  rank.sync();
  process.reach(kDone);
}

// What happens on rank 0, which is told something else than the others.
Operation odd_count(size_t odd) {
  return [odd](const Rank& rank, float* send, float* receive) {
    const size_t count = rank.rank == 0 ? odd : kCount;
    NCCL_OK(ncclAllReduce(send, receive, count, ncclFloat, ncclSum, rank.comm, rank.stream));
  };
}

void odd_function(const Rank& rank, float* send, float* receive) {
  if (rank.rank == 0) {
    NCCL_OK(ncclAllGather(send, receive, kCount, ncclFloat, rank.comm, rank.stream));
  } else {
    NCCL_OK(ncclAllReduce(send, receive, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
  }
}

void odd_reduction(const Rank& rank, float* send, float* receive) {
  const ncclRedOp_t op = rank.rank == 0 ? ncclMax : ncclSum;
  NCCL_OK(ncclAllReduce(send, receive, kCount, ncclFloat, op, rank.comm, rank.stream));
}

void odd_root(const Rank& rank, float* send, float* receive) {
  NCCL_OK(ncclBroadcast(send, receive, kCount, ncclFloat, rank.rank == 0 ? 1 : 0, rank.comm,
                        rank.stream));
}

World::Settings mode(const char* name) {
  return {{"SIMGPU_NCCL_MISMATCH", name}};
}

World start(const Operation& operation, const World::Settings& settings = {}) {
  return World(
      kRanks, [operation](const Process& process) { run(process, operation); }, settings);
}

TEST(Mismatch, TheRankThatExpectsMoreHangs) {
  World world = start(odd_count(kCount + 1));
  EXPECT_TRUE(world.succeeds(1));
  EXPECT_TRUE(world.succeeds(2));
  EXPECT_TRUE(world.hangs_at(0, kEntered));
}

TEST(Mismatch, TheRanksThatExpectMoreHang) {
  World world = start(odd_count(kCount / 2));
  EXPECT_TRUE(world.succeeds(0));
  EXPECT_TRUE(world.hangs_at(1, kEntered));
  EXPECT_TRUE(world.hangs_at(2, kEntered));
}

TEST(Mismatch, OtherFunctionHangs) {
  World world = start(odd_function);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(world.hangs_at(rank, kEntered));
  }
}

TEST(Mismatch, OtherElementWidthHangs) {
  World world = start([](const Rank& rank, float* send, float* receive) {
    const ncclDataType_t type = rank.rank == 0 ? ncclDouble : ncclFloat;
    NCCL_OK(ncclAllReduce(send, receive, kCount, type, ncclSum, rank.comm, rank.stream));
  });
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  EXPECT_TRUE(world.hangs_at(1, kEntered));
}

TEST(Mismatch, OtherReductionCorrupts) {
  World world = start([](const Rank& rank, float* send, float* receive) {
    odd_reduction(rank, send, receive);
    rank.sync();
    const std::vector<float> result = to_host(receive, kCount);
    NEED(std::any_of(result.begin(), result.end(), [](float value) { return value != 6.0F; }));
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Mismatch, OtherTypeOfEqualWidthCorruptsAReduction) {
  World world = start([](const Rank& rank, float* send, float* receive) {
    const ncclDataType_t type = rank.rank == 0 ? ncclInt32 : ncclFloat;
    NCCL_OK(ncclAllReduce(send, receive, kCount, type, ncclSum, rank.comm, rank.stream));
    rank.sync();
    const std::vector<float> result = to_host(receive, kCount);
    NEED(std::any_of(result.begin(), result.end(), [](float value) { return value != 6.0F; }));
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Mismatch, OtherTypeOfEqualBytesIsRightInACopy) {
  World world = start([](const Rank& rank, float* send, float* receive) {
    const bool odd = rank.rank == 0;
    NCCL_OK(ncclAllGather(send, receive, odd ? kCount : 2 * kCount, odd ? ncclDouble : ncclInt32,
                          rank.comm, rank.stream));
    rank.sync();
    for (int from = 0; from < kRanks; ++from) {
      NEED(all_equal(receive + 2 * kCount * size_t(from), 2 * kCount,
                     1.0F + static_cast<float>(from)));
    }
  });
  EXPECT_TRUE(world.all_succeed());
}

// 0 believes in root 1, the others in root 0: rank 0 receives from 2, which waits for 1, which
// waits for 0.
TEST(Mismatch, OtherRootBehavesAsTheRing) {
  World world = start(odd_root);
  EXPECT_TRUE(world.hangs_at(1, kEntered));
}

// Rank 2 believes in root 1 and passes on what rank 1 sent, which came from root 0.
TEST(Mismatch, OtherRootInTheMiddleGoesUnnoticed) {
  World world = start([](const Rank& rank, float* send, float* receive) {
    NCCL_OK(ncclBroadcast(send, receive, kCount, ncclFloat, rank.rank == 2 ? 1 : 0, rank.comm,
                          rank.stream));
    rank.sync();
    NEED(all_equal(receive, kCount, 1.0F));
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Mismatch, ReceiveOfMoreThanIsSentHangs) {
  World world = start([](const Rank& rank, float* send, float* receive) {
    if (rank.rank == 0) {
      NCCL_OK(ncclSend(send, kCount, ncclFloat, 1, rank.comm, rank.stream));
    } else if (rank.rank == 1) {
      NCCL_OK(ncclRecv(receive, kCount + 1, ncclFloat, 0, rank.comm, rank.stream));
    }
  });
  EXPECT_TRUE(world.succeeds(0));
  EXPECT_TRUE(world.succeeds(2));
  EXPECT_TRUE(world.hangs_at(1, kEntered));
}

TEST(Mismatch, WithHangEveryDisagreementHangs) {
  for (const Operation& operation :
       {odd_count(kCount / 2), Operation(odd_function), Operation(odd_reduction)}) {
    World world = start(operation, mode("hang"));
    EXPECT_TRUE(world.hangs_at(0, kEntered));
    EXPECT_TRUE(world.hangs_at(1, kEntered));
  }
}

TEST(Mismatch, WithCorruptNoneHangs) {
  for (const Operation& operation :
       {odd_count(kCount / 2), odd_count(2 * kCount), Operation(odd_reduction)}) {
    World world = start(operation, mode("corrupt"));
    EXPECT_TRUE(world.all_succeed());
  }
  World receives(
      2,
      [](const Process& process) {
        run(process, [](const Rank& rank, float* send, float* receive) {
          if (rank.rank == 0) {
            NCCL_OK(ncclSend(send, kCount, ncclFloat, 1, rank.comm, rank.stream));
            return;
          }
          NCCL_OK(ncclRecv(receive, 2 * kCount, ncclFloat, 0, rank.comm, rank.stream));
          rank.sync();
          NEED(all_equal(receive, kCount, 1.0F) && all_equal(receive + kCount, kCount, 0.0F));
        });
      },
      mode("corrupt"));
  EXPECT_TRUE(receives.all_succeed());
}

// The rank that notices gets an asynchronous error; its kernel stays until it is aborted.
TEST(Mismatch, WithErrorTheRanksThatNoticeAreTold) {
  for (const Operation& operation :
       {odd_count(kCount / 2), Operation(odd_function), Operation(odd_reduction)}) {
    World world(
        kRanks,
        [&](const Process& process) {
          run(process, [&](const Rank& rank, float* send, float* receive) {
            operation(rank, send, receive);
            ncclResult_t state = ncclSuccess;
            while (rank.rank == 1 && state == ncclSuccess) {
              NCCL_OK(ncclCommGetAsyncError(rank.comm, &state));
              usleep(1'000);
            }
            if (rank.rank == 1) {
              NEED_EQ(state, ncclInternalError);
              NEED_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
              NCCL_OK(ncclCommAbort(rank.comm));
            }
          });
        },
        mode("error"));
    EXPECT_TRUE(world.succeeds(1));
  }
}

}  // namespace
}  // namespace nccl_test
