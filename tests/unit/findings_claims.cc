// uses: analyzer
// Nothing is said of a rank that its own record contradicts.
#include "analyzer/detectors/hang/claims.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "analyzer/judge/judge.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

// Rank 2 enters #2 before the others give up; rank 3 when they have.
constexpr const char* kJob =
    "ranks 0-3\n"
    "communicator dp members=0-3\n"
    "+1 0-3 calls ncclAllReduce on dp\n"
    "+2 0-2 enqueues ncclAllReduce on dp\n"
    "+2.1 0-2 enters cudaStreamSynchronize\n"
    "+602 0-2/2 calls ncclCommAbort on dp\n"
    "+700 3 enqueues ncclAllReduce on dp\n"
    "+700.1 3 enters cudaStreamSynchronize\n"
    "end +800\n";

class Claims : public testing::Test {
 protected:
  void SetUp() override {
    Result<DumpText> dump = parse_dump(kJob, "job");
    ASSERT_TRUE(dump) << dump.error().message;
    Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
    ASSERT_TRUE(judged);
    run_ = std::move(judged->run);
    findings_ = std::move(judged->findings);
  }

  Finding missing(Rank rank, uint64_t sequence) const {
    const Communicator& communicator = run_.communicators.front();
    Finding finding;
    finding.code = "collective.missing-rank";
    finding.culprits = {rank};
    finding.sides = {{rank}, {Rank{0}}};
    finding.communicator = {communicator.id, communicator.name, communicator.size};
    finding.sequence = sequence;
    return finding;
  }

  traintrace::Run run_;
  std::vector<Finding> findings_;
};

TEST_F(Claims, OfWhatIsNotRecordedStay) {
  std::vector<Finding> findings = {missing(Rank{2}, 3)};
  EXPECT_NO_THROW(withdraw_contradicted(run_, findings));
  EXPECT_EQ(findings.size(), 1U);
}

TEST_F(Claims, AgainstTheRecordsAreWithdrawn) {
  std::vector<Finding> findings = {missing(Rank{3}, 3), missing(Rank{2}, 2)};
  EXPECT_THROW(withdraw_contradicted(run_, findings), std::logic_error);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().culprits, Ranks{Rank{3}});
}

TEST_F(Claims, OfWhoCameWhenTheOthersHadGivenUpStay) {
  ASSERT_EQ(findings_.front().code, "collective.missing-rank");
  EXPECT_EQ(findings_.front().culprits, Ranks{Rank{3}});
  EXPECT_NO_THROW(withdraw_contradicted(run_, findings_));
}

}  // namespace
}  // namespace traintrace
