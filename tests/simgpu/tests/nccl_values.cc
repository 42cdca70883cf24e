// test: timeout=900 labels=values
// Every collective with every data type and reduction gives the right values with ranks that are
// threads, devices of one thread, or (where that takes seconds) processes.
#include "tests/nccl_team.h"

namespace nccl_test {
namespace {

class Values : public testing::TestWithParam<int> {};

TEST_P(Values, RanksAreThreads) {
  const int ranks = GetParam();
  World world(1, [&](const Process& process) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back(run_one_rank, process.id(), ranks, rank);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });
  EXPECT_TRUE(world.all_succeed());
}

TEST_P(Values, RanksAreDevicesOfOneThread) {
  const int ranks = GetParam();
  World world(1, [&](const Process&) {
    std::vector<ncclComm_t> communicators(static_cast<size_t>(ranks));
    NCCL_OK(ncclCommInitAll(communicators.data(), ranks, nullptr));
    std::vector<Member> members(static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      Member& member = members[static_cast<size_t>(rank)];
      member.rank = member.device = rank;
      member.comm = communicators[static_cast<size_t>(rank)];
      CUDA_OK(cudaSetDevice(rank));
      CUDA_OK(cudaStreamCreateWithFlags(&member.stream, cudaStreamNonBlocking));
    }
    Team team(std::move(members), ranks);
    team.run_everything();
    team.leave();
  });
  EXPECT_TRUE(world.all_succeed());
}

// ThreadSanitizer sees nothing between processes, and takes minutes for eight threads.
#if defined(__SANITIZE_THREAD__)
const auto kRanks = testing::Values(1, 2, 4);
#else
const auto kRanks = testing::Values(1, 2, 4, 8);

TEST(ValuesMany, EightProcesses) {
  World world(
      8, [](const Process& process) { run_one_rank(process.id(), process.count, process.index); });
  EXPECT_TRUE(world.all_succeed());
}
#endif

// Threads in two processes, in chunks of 4 KiB through the shortest queues, so that everything
// takes many rounds.
TEST(ValuesMany, SmallChunks) {
  World world(2,
              [](const Process& process) {
                std::thread other(run_one_rank, process.id(), 4, 2 * process.index + 1);
                run_one_rank(process.id(), 4, 2 * process.index);
                other.join();
              },
              {{"SIMGPU_NCCL_SLOT_BYTES", "4096"}, {"SIMGPU_NCCL_SLOTS", "2"}});
  EXPECT_TRUE(world.all_succeed());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Values, kRanks);

}  // namespace
}  // namespace nccl_test
