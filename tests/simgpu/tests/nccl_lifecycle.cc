// test: timeout=300 labels=multiprocess
// Communicators are made, split, shrunk, revoked, aborted and destroyed.
#include "tests/nccl_world.h"

namespace nccl_test {
namespace {

constexpr size_t kCount = 50'000;

enum Stage { kStart, kEntered, kDone };
enum Gate { kClosed, kOpen };

ncclResult_t wait_until_ready(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    NCCL_OK(ncclCommGetAsyncError(comm, &state));
    usleep(500);
  }
  return state;
}

ncclResult_t all_reduce(const Rank& rank, float* buffer) {
  return ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, rank.comm, rank.stream);
}

void check_sum(const Rank& rank, int ranks) {
  float* buffer = device_array(kCount, 1.0F);
  NCCL_OK(all_reduce(rank, buffer));
  rank.sync();
  NEED(all_equal(buffer, kCount, static_cast<float>(ranks)));
  CUDA_OK(cudaFree(buffer));
}

Rank with(const Rank& other, ncclComm_t comm) {
  Rank made = other;
  made.comm = comm;
  NCCL_OK(ncclCommUserRank(comm, &made.rank));
  return made;
}

// Calls ncclCommAbort from another thread once `process` is stuck; its own thread reaches kDone
// after.
void abort_when_stuck(const Process& process, const Rank& rank,
                      const std::function<void()>& stuck) {
  std::thread aborter([&] {
    process.wait_for_gate(kOpen);
    NCCL_OK(ncclCommAbort(rank.comm));
  });
  process.reach(kEntered);
  stuck();
  aborter.join();
  process.reach(kDone);
}

TEST(Lifecycle, AbortEndsAKernelThatWaits) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(0), process.count, process.index);
    check_sum(rank, process.count);
    if (process.index == 0) {
      float* buffer = device_array(kCount, 1.0F);
      abort_when_stuck(process, rank, [&] {
        NCCL_OK(all_reduce(rank, buffer));
        rank.sync();
      });
      ncclResult_t state = ncclSuccess;
      NEED_EQ(ncclCommGetAsyncError(rank.comm, &state), ncclInvalidArgument);
      NEED_EQ(all_reduce(rank, buffer), ncclInvalidArgument);
    } else {
      process.wait_for_stage(0, kDone);
      NCCL_OK(ncclCommAbort(rank.comm));
    }
    Rank again = Rank::join(process.id(1), process.count, process.index);
    check_sum(again, process.count);
    again.leave();
  });
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, AbortEndsACallThatConnects) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    if (process.index == 0) {
      float* buffer = device_array(kCount, 1.0F);
      abort_when_stuck(process, rank,
                       [&] { NEED_EQ(all_reduce(rank, buffer), ncclInternalError); });
    }
  });
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, AbortReleasesOnlyItsOwnSide) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    check_sum(rank, process.count);
    if (process.index == 1) {
      process.wait_for_stage(0, kEntered);
      NCCL_OK(ncclCommAbort(rank.comm));
      process.reach(kDone);
      return;
    }
    float* buffer = device_array(kCount, 1.0F);
    NCCL_OK(all_reduce(rank, buffer));
    process.reach(kEntered);
    rank.sync();
    process.reach(kDone);
  });
  EXPECT_TRUE(world.reaches(1, kDone));
  EXPECT_TRUE(world.hangs_at(0, kEntered));
}

TEST(Lifecycle, NonBlockingInitAndFirstUse) {
  World world(2, [](const Process& process) {
    if (process.index == 1) {
      process.wait_for_gate(kOpen);
    }
    Rank rank{.rank = process.index, .device = process.index};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    CUDA_OK(cudaSetDevice(rank.device));
    CUDA_OK(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
    NEED_EQ(ncclCommInitRankConfig(&rank.comm, 2, process.id(), process.index, &config),
            ncclInProgress);
    float* buffer = device_array(kCount, 1.0F);
    if (process.index == 0) {
      ncclResult_t state = ncclSuccess;
      NCCL_OK(ncclCommGetAsyncError(rank.comm, &state));
      NEED_EQ(state, ncclInProgress);
      NEED_EQ(all_reduce(rank, buffer), ncclInvalidArgument);  // not ready
      process.reach(kEntered);
      process.wait_for_gate(kOpen);
    }
    NEED_EQ(wait_until_ready(rank.comm), ncclSuccess);
    NEED_EQ(all_reduce(rank, buffer), ncclInProgress);  // connects in the background
    NEED_EQ(wait_until_ready(rank.comm), ncclSuccess);
    NEED_EQ(all_reduce(rank, buffer), ncclSuccess);
    rank.sync();
    NEED(all_equal(buffer, kCount, 4.0F));
    NEED_EQ(ncclCommFinalize(rank.comm), ncclInProgress);
    NEED_EQ(wait_until_ready(rank.comm), ncclSuccess);
    rank.leave();
  });
  EXPECT_TRUE(world.reaches(0, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, AbortEndsANonBlockingInit) {
  World world(1, [](const Process& process) {
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    NEED_EQ(ncclCommInitRankConfig(&comm, 2, process.id(), 0, &config), ncclInProgress);
    usleep(50'000);
    NCCL_OK(ncclCommAbort(comm));
  });
  EXPECT_TRUE(world.all_succeed());
}

// A grid of 2 x 4: each rank is in a row and in a column.
TEST(Lifecycle, GridBySplit) {
  World world(8, [](const Process& process) {
    constexpr int kColumns = 4;
    Rank rank = Rank::join(process.id(), process.count, process.index);
    const int row = process.index / kColumns;
    const int column = process.index % kColumns;
    ncclComm_t in_row = nullptr;
    ncclComm_t in_column = nullptr;
    NCCL_OK(ncclCommSplit(rank.comm, row, -column, &in_row, nullptr));  // reversed by the key
    NCCL_OK(ncclCommSplit(rank.comm, column, row, &in_column, nullptr));
    const Rank a = with(rank, in_row);
    const Rank b = with(rank, in_column);
    NEED_EQ(a.rank, kColumns - 1 - column);
    NEED_EQ(b.rank, row);
    float* buffer = device_array(kCount, static_cast<float>(process.index));
    NCCL_OK(all_reduce(a, buffer));
    NCCL_OK(all_reduce(b, buffer));
    rank.sync();
    NEED(all_equal(buffer, kCount, 28.0F));
    NCCL_OK(ncclCommDestroy(in_row));
    NCCL_OK(ncclCommDestroy(in_column));
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, RanksWithoutColorTakePartInASplit) {
  World world(3, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    if (process.index == 2) {
      process.wait_for_gate(kOpen);
    }
    process.reach(kEntered);
    ncclComm_t child = nullptr;
    const int color = process.index == 2 ? NCCL_SPLIT_NOCOLOR : 5;
    NCCL_OK(ncclCommSplit(rank.comm, color, process.index, &child, nullptr));
    process.reach(kDone);
    NEED_EQ(child == nullptr, process.index == 2);
    if (child) {
      check_sum(with(rank, child), 2);
      NCCL_OK(ncclCommDestroy(child));
    }
    rank.leave();
  });
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, SplitInAGroupAndWithoutBlocking) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    ncclComm_t first = nullptr;
    ncclComm_t second = nullptr;
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclCommSplit(rank.comm, 0, process.index, &first, nullptr));
    NCCL_OK(ncclCommSplit(rank.comm, process.index, 0, &second, nullptr));
    NCCL_OK(ncclGroupEnd());
    check_sum(with(rank, first), 2);
    check_sum(with(rank, second), 1);
    NCCL_OK(ncclCommDestroy(first));
    NCCL_OK(ncclCommDestroy(second));
    rank.leave();

    Rank other{.rank = process.index, .device = process.index};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    CUDA_OK(cudaStreamCreateWithFlags(&other.stream, cudaStreamNonBlocking));
    NEED_EQ(ncclCommInitRankConfig(&other.comm, 2, process.id(1), process.index, &config),
            ncclInProgress);
    NEED_EQ(wait_until_ready(other.comm), ncclSuccess);
    NEED_EQ(ncclCommSplit(other.comm, 0, process.index, &first, nullptr), ncclInProgress);
    NEED_EQ(wait_until_ready(first), ncclSuccess);
    NEED_EQ(wait_until_ready(other.comm), ncclSuccess);
    NCCL_OK(ncclCommDestroy(first));
    other.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, ShrinkLeavesTheExcludedOut) {
  World world(4, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    int excluded[] = {3, 1};
    if (process.index % 2 == 0) {
      for (int round = 0; round < 2; ++round) {
        ncclComm_t child = nullptr;
        NCCL_OK(ncclCommShrink(rank.comm, excluded, 2, &child, nullptr, NCCL_SHRINK_DEFAULT));
        const Rank small = with(rank, child);
        NEED_EQ(small.rank, process.index / 2);
        check_sum(small, 2);
        NCCL_OK(ncclCommDestroy(child));
      }
    } else {
      ncclComm_t child = nullptr;
      NEED_EQ(ncclCommShrink(rank.comm, excluded, 2, &child, nullptr, NCCL_SHRINK_DEFAULT),
              ncclInvalidArgument);
    }
    check_sum(rank, 4);
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, ShrinkWithAbortEndsWhatHangs) {
  World world(3, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    check_sum(rank, 3);
    if (process.index == 2) {
      process.reach(kEntered);
      pause();
    }
    float* buffer = device_array(kCount, 1.0F);
    NCCL_OK(all_reduce(rank, buffer));
    process.reach(kEntered);
    process.wait_for_gate(kOpen);
    int excluded[] = {2};
    ncclComm_t child = nullptr;
    NCCL_OK(ncclCommShrink(rank.comm, excluded, 1, &child, nullptr, NCCL_SHRINK_ABORT));
    rank.sync();
    check_sum(with(rank, child), 2);
    NCCL_OK(ncclCommDestroy(child));
    NCCL_OK(ncclCommAbort(rank.comm));
  });
  EXPECT_TRUE(world.reaches(2, kEntered));
  EXPECT_TRUE(world.reaches(0, kEntered));
  EXPECT_TRUE(world.reaches(1, kEntered));
  world.kill(2);
  world.open_gate(kOpen);
  EXPECT_TRUE(world.succeeds(0));
  EXPECT_TRUE(world.succeeds(1));
}

TEST(Lifecycle, RevokeEndsWhatHangsAndRefusesTheRest) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    check_sum(rank, 2);
    float* buffer = device_array(kCount, 1.0F);
    if (process.index == 0) {
      NCCL_OK(all_reduce(rank, buffer));
      usleep(20'000);
      NEED_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
    }
    NEED_EQ(ncclCommRevoke(rank.comm, 1), ncclInvalidArgument);
    NCCL_OK(ncclCommRevoke(rank.comm, NCCL_REVOKE_DEFAULT));
    rank.sync();
    NEED_EQ(all_reduce(rank, buffer), ncclInvalidUsage);
    NEED_EQ(ncclCommRevoke(rank.comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
    NEED_EQ(ncclCommFinalize(rank.comm), ncclInvalidArgument);
    ncclComm_t child = nullptr;
    NCCL_OK(ncclCommSplit(rank.comm, 0, 0, &child, nullptr));
    check_sum(with(rank, child), 2);
    NCCL_OK(ncclCommDestroy(child));
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, InjectedAsyncErrorStopsOneRank) {
  World world(2,
              [](const Process& process) {
                Rank rank = Rank::join(process.id(), process.count, process.index);
                check_sum(rank, 2);
                float* buffer = device_array(kCount, 1.0F);
                NCCL_OK(all_reduce(rank, buffer));
                process.reach(kEntered);
                if (process.index == 1) {
                  ncclResult_t state = ncclSuccess;
                  while (state == ncclSuccess) {
                    NCCL_OK(ncclCommGetAsyncError(rank.comm, &state));
                  }
                  NEED_EQ(state, ncclRemoteError);
                  NEED_EQ(all_reduce(rank, buffer), ncclRemoteError);
                  NEED_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
                  NCCL_OK(ncclCommAbort(rank.comm));
                }
                rank.sync();
              },
              {{"SIMGPU_NCCL_ASYNC_ERROR", "1@2=6"}});
  EXPECT_TRUE(world.succeeds(1));
  EXPECT_TRUE(world.hangs_at(0, kEntered));
}

TEST(Lifecycle, DestroyAndFinalizeWaitForTheStream) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    check_sum(rank, 2);
    if (process.index == 1) {
      process.wait_for_gate(kOpen);
    }
    NCCL_OK(all_reduce(rank, device_array(kCount, 1.0F)));
    process.reach(kEntered);
    NCCL_OK(ncclCommFinalize(rank.comm));
    process.reach(kDone);
    NEED_EQ(ncclCommFinalize(rank.comm), ncclInvalidArgument);
    rank.leave();
    NEED_EQ(ncclCommDestroy(rank.comm), ncclInvalidArgument);
    NCCL_OK(ncclCommDestroy(nullptr));
  });
  EXPECT_TRUE(world.hangs_at(0, kEntered));
  world.open_gate(kOpen);
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, WrongArgumentsAreRefused) {
  World world(1, [](const Process& process) {
    ncclComm_t comm = nullptr;
    NEED_EQ(ncclCommInitRank(&comm, 0, process.id(), 0), ncclInvalidArgument);
    NEED_EQ(ncclCommInitRank(&comm, 2, process.id(), 2), ncclInvalidArgument);
    NEED_EQ(ncclCommInitRank(nullptr, 1, process.id(), 0), ncclInvalidArgument);
    NEED_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.magic = 1;
    NEED_EQ(ncclCommInitRankConfig(&comm, 1, process.id(), 0, &config), ncclInvalidArgument);
    config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 2;
    NEED_EQ(ncclCommInitRankConfig(&comm, 1, process.id(), 0, &config), ncclInvalidArgument);
    const int twice[] = {0, 0};
    ncclComm_t two[2];
    NEED_EQ(ncclCommInitAll(two, 2, twice), ncclInvalidUsage);
    const int beyond[] = {99};
    NEED_EQ(ncclCommInitAll(two, 1, beyond), ncclInvalidArgument);

    Rank rank = Rank::join(process.id(), 1, 0);
    float* buffer = device_array(8, 1.0F);
    const auto reduce = [&](ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t on) {
      return ncclReduce(buffer, buffer, 1, type, op, root, on, rank.stream);
    };
    NEED_EQ(reduce(ncclFloat, ncclSum, 0, nullptr), ncclInvalidArgument);
    NEED_EQ(reduce(ncclFloat, ncclSum, 1, rank.comm), ncclInvalidArgument);
    NEED_EQ(reduce(ncclNumTypes, ncclSum, 0, rank.comm), ncclInvalidArgument);
    NEED_EQ(reduce(ncclFloat, ncclNumOps, 0, rank.comm), ncclInvalidArgument);
    float factor = 2;
    ncclRedOp_t op = ncclSum;
    NCCL_OK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, rank.comm));
    NEED_EQ(reduce(ncclDouble, op, 0, rank.comm), ncclInvalidArgument);
    NCCL_OK(ncclRedOpDestroy(op, rank.comm));
    NEED_EQ(ncclRedOpDestroy(op, rank.comm), ncclInvalidArgument);
    NEED_EQ(ncclRedOpDestroy(ncclSum, rank.comm), ncclInvalidArgument);
    NEED(strlen(ncclGetLastError(rank.comm)) > 0);
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, TwoRanksOnOneDeviceAreRefused) {
  World world(2, [](const Process& process) {
    ncclComm_t comm = nullptr;
    CUDA_OK(cudaSetDevice(0));
    NEED_EQ(ncclCommInitRank(&comm, 2, process.id(), process.index), ncclInvalidUsage);
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, PointersAreCheckedOnDemand) {
  World world(
      1,
      [](const Process& process) {
        Rank rank = Rank::join(process.id(), 1, 0);
        std::vector<float> host(8);
        float* device = device_array(8, 1.0F);
        NEED_EQ(ncclAllReduce(host.data(), device, 8, ncclFloat, ncclSum, rank.comm, rank.stream),
                ncclInvalidArgument);
        NCCL_OK(ncclAllReduce(device, device, 8, ncclFloat, ncclSum, rank.comm, rank.stream));
        rank.leave();
      },
      {{"NCCL_CHECK_POINTERS", "1"}});
  EXPECT_TRUE(world.all_succeed());
}

TEST(Lifecycle, CallsFailOnRequest) {
  World world(1, [](const Process&) {
    char program[] = "/proc/self/exe";
    setenv("SIMGPU_FAIL", "ncclGetVersion@2=3", 1);
    execl(program, program, "--gtest_also_run_disabled_tests",
          "--gtest_filter=Lifecycle.DISABLED_SecondCallFails", nullptr);
    _exit(2);
  });
  EXPECT_TRUE(world.all_succeed());
}
TEST(Lifecycle, DISABLED_SecondCallFails) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 22809);
  EXPECT_EQ(ncclGetVersion(&version), ncclInternalError);
  EXPECT_EQ(pncclGetVersion(&version), ncclSuccess);
}

}  // namespace
}  // namespace nccl_test
