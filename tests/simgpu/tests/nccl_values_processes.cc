// test: timeout=900 labels=multiprocess,values
// Every collective with every data type and reduction gives the right values with ranks that are
// processes. Eight of them: nccl_values.cc, which scripts/soak leaves out.
#include "tests/nccl_team.h"

namespace nccl_test {
namespace {

class Values : public testing::TestWithParam<int> {};

TEST_P(Values, RanksAreProcesses) {
  World world(GetParam(), [](const Process& process) {
    run_one_rank(process.id(), process.count, process.index);
  });
  EXPECT_TRUE(world.all_succeed());
}

// Half of the ranks are threads of one process, half of another.
TEST(ValuesMixed, ThreadsInTwoProcesses) {
  World world(2, [](const Process& process) {
    std::thread other(run_one_rank, process.id(), 4, 2 * process.index + 1);
    run_one_rank(process.id(), 4, 2 * process.index);
    other.join();
  });
  EXPECT_TRUE(world.all_succeed());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Values, testing::Values(1, 2, 4));

}  // namespace
}  // namespace nccl_test
