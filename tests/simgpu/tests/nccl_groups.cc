// test: timeout=300 labels=multiprocess
// Groups, several communicators and streams, graphs.
#include "tests/nccl_world.h"

namespace nccl_test {
namespace {

constexpr size_t kCount = 50'000;

float first_of(const float* memory) {
  return to_host(memory, 1)[0];
}

// Two communicators with opposite ring orders in one group connect and run together.
TEST(Groups, SeveralCommunicatorsInOneGroup) {
  World world(4, [](const Process& process) {
    Rank a = Rank::join(process.id(0), process.count, process.index);
    Rank b{.rank = process.count - 1 - process.index, .device = process.index};
    CUDA_OK(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
    NCCL_OK(ncclCommInitRank(&b.comm, process.count, process.id(1), b.rank));
    float* x = device_array(kCount, 1.0F);
    float* y = device_array(kCount, 2.0F);
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(x, x, kCount, ncclFloat, ncclSum, a.comm, a.stream));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(y, y, kCount, ncclFloat, ncclSum, b.comm, b.stream));
    NCCL_OK(ncclGroupEnd());
    NCCL_OK(ncclGroupEnd());
    a.sync();
    b.sync();
    NEED(all_equal(x, kCount, 4.0F) && all_equal(y, kCount, 8.0F));
    b.leave();
    a.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Groups, CommunicatorsMadeInAGroup) {
  World world(1, [](const Process& process) {
    constexpr int kRanks = 4;
    ncclComm_t communicators[kRanks];
    NCCL_OK(ncclGroupStart());
    for (int rank = 0; rank < kRanks; ++rank) {
      CUDA_OK(cudaSetDevice(rank));
      NCCL_OK(ncclCommInitRank(&communicators[rank], kRanks, process.id(), rank));
    }
    NCCL_OK(ncclGroupEnd());
    for (int rank = 0; rank < kRanks; ++rank) {
      int value = -1;
      NCCL_OK(ncclCommUserRank(communicators[rank], &value));
      NEED_EQ(value, rank);
      NCCL_OK(ncclCommCuDevice(communicators[rank], &value));
      NEED_EQ(value, rank);
      NCCL_OK(ncclCommCount(communicators[rank], &value));
      NEED_EQ(value, kRanks);
    }
    NCCL_OK(ncclGroupStart());
    for (ncclComm_t comm : communicators) {
      NCCL_OK(ncclCommDestroy(comm));
    }
    NCCL_OK(ncclGroupEnd());
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Groups, SeveralUniqueIds) {
  World world(3, [](const Process& process) {
    ncclUniqueId ids[] = {process.id(0), process.id(1)};
    Rank rank{.rank = process.index, .device = process.index};
    CUDA_OK(cudaSetDevice(rank.device));
    CUDA_OK(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
    NCCL_OK(ncclCommInitRankScalable(&rank.comm, process.count, process.index, 2, ids, nullptr));
    float* buffer = device_array(kCount, 1.0F);
    NCCL_OK(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
    rank.sync();
    NEED(all_equal(buffer, kCount, 3.0F));
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

// Several collectives and transfers of one communicator run as one operation.
TEST(Groups, ManyOperationsOfOneCommunicator) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    const int peer = 1 - process.index;
    const float own = 1.0F + static_cast<float>(process.index);
    float* large = device_array(kCount, own);
    float* small = device_array(10, own);
    float* out = device_array(4 * kCount, own);
    float* in = device_array(4 * kCount, 0.0F);
    NCCL_OK(ncclGroupStart());
    for (size_t part = 0; part < 4; ++part) {
      NCCL_OK(ncclSend(out + part * kCount, kCount, ncclFloat, peer, rank.comm, rank.stream));
    }
    // Ranks may call collectives of different size in any order within a group.
    if (process.index == 0) {
      NCCL_OK(ncclAllReduce(small, small, 10, ncclFloat, ncclSum, rank.comm, rank.stream));
      NCCL_OK(ncclAllReduce(large, large, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
    } else {
      NCCL_OK(ncclAllReduce(large, large, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
      NCCL_OK(ncclAllReduce(small, small, 10, ncclFloat, ncclSum, rank.comm, rank.stream));
    }
    for (size_t part = 0; part < 4; ++part) {
      NCCL_OK(ncclRecv(in + part * kCount, kCount, ncclFloat, peer, rank.comm, rank.stream));
    }
    NCCL_OK(ncclGroupEnd());
    rank.sync();
    NEED(all_equal(large, kCount, 3.0F) && all_equal(small, 10, 3.0F));
    NEED(all_equal(in, 4 * kCount, 3.0F - own));
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

// The kernel runs on the group's first stream; the others wait for it and it waits for them.
TEST(Groups, SeveralStreamsOfOneCommunicator) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    cudaStream_t other = nullptr;
    CUDA_OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    float* a = device_array(kCount, 1.0F);
    float* b = device_array(kCount, 0.0F);
    const auto late = [](void*) { usleep(50'000); };
    CUDA_OK(cudaLaunchHostFunc(other, late, nullptr));
    const std::vector<float> two(kCount, 2.0F);
    CUDA_OK(cudaMemcpyAsync(b, two.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, other));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(a, a, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
    NCCL_OK(ncclAllReduce(b, b, kCount, ncclFloat, ncclSum, rank.comm, other));
    NCCL_OK(ncclGroupEnd());
    CUDA_OK(cudaStreamSynchronize(other));
    NEED(all_equal(a, kCount, 2.0F) && all_equal(b, kCount, 4.0F));
    // Kernels of one communicator keep their order over streams.
    for (int i = 0; i < 20; ++i) {
      NCCL_OK(
          ncclAllReduce(a, a, kCount, ncclFloat, ncclMax, rank.comm, i % 2 ? other : rank.stream));
    }
    rank.sync();
    CUDA_OK(cudaStreamSynchronize(other));
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Groups, FailedCallSpoilsTheGroup) {
  World world(1, [](const Process& process) {
    Rank rank = Rank::join(process.id(), 1, 0);
    float* buffer = device_array(10, 1.0F);
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllGather(buffer, buffer + 1, 1, ncclFloat, rank.comm, rank.stream));
    NEED_EQ(ncclBroadcast(buffer, buffer, 1, ncclFloat, 7, rank.comm, rank.stream),
            ncclInvalidArgument);
    NEED_EQ(ncclGroupEnd(), ncclInvalidArgument);
    NEED_EQ(ncclGroupEnd(), ncclInvalidUsage);
    NCCL_OK(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, rank.comm, rank.stream));
    rank.sync();
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(buffer, 1, ncclFloat, 0, rank.comm, rank.stream));
    NEED_EQ(ncclGroupEnd(), ncclInvalidUsage);  // nobody receives it
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Groups, SimulationLaunchesNothing) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* buffer = device_array(kCount, 1.0F);
    if (process.index == 0) {
      ncclSimInfo_t simulated = NCCL_SIM_INFO_INITIALIZER;
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
      NCCL_OK(ncclGroupSimulateEnd(&simulated));
      NEED(simulated.estimatedTime > 0);
    }
    rank.sync();
    NEED(all_equal(buffer, kCount, 1.0F));
    NCCL_OK(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
    rank.sync();
    NEED(all_equal(buffer, kCount, 2.0F));
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

// Each launch of the graph is a new operation.
TEST(Groups, CapturedCollectivesReplay) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    float* sum = device_array(kCount, 1.0F);
    float* received = device_array(kCount, 0.0F);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CUDA_OK(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
    NCCL_OK(ncclAllReduce(sum, sum, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(sum, kCount, ncclFloat, 1 - process.index, rank.comm, rank.stream));
    NCCL_OK(ncclRecv(received, kCount, ncclFloat, 1 - process.index, rank.comm, rank.stream));
    NCCL_OK(ncclGroupEnd());
    CUDA_OK(cudaStreamEndCapture(rank.stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    rank.sync();
    NEED_EQ(first_of(sum), 1);
    for (int i = 0; i < 3; ++i) {
      CUDA_OK(cudaGraphLaunch(executable, rank.stream));
    }
    NCCL_OK(ncclAllReduce(sum, sum, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
    CUDA_OK(cudaGraphLaunch(executable, rank.stream));
    rank.sync();
    NEED(all_equal(sum, kCount, 32.0F) && all_equal(received, kCount, 32.0F));
    CUDA_OK(cudaGraphExecDestroy(executable));
    CUDA_OK(cudaGraphDestroy(graph));
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST(Groups, BuffersAndWindowsAreRegistered) {
  World world(2, [](const Process& process) {
    Rank rank = Rank::join(process.id(), process.count, process.index);
    void* buffer = nullptr;
    void* handle = nullptr;
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclMemAlloc(&buffer, kCount * sizeof(float)));
    NCCL_OK(ncclCommRegister(rank.comm, buffer, kCount * sizeof(float), &handle));
    NCCL_OK(ncclCommWindowRegister(rank.comm, buffer, kCount * sizeof(float), &window,
                                   NCCL_WIN_COLL_SYMMETRIC));
    NEED(handle && window);
    NCCL_OK(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, rank.comm, rank.stream));
    rank.sync();
    NCCL_OK(ncclCommWindowDeregister(rank.comm, window));
    NCCL_OK(ncclCommDeregister(rank.comm, handle));
    NEED_EQ(ncclCommDeregister(rank.comm, handle), ncclInvalidArgument);
    NCCL_OK(ncclMemFree(buffer));
    rank.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

}  // namespace
}  // namespace nccl_test
