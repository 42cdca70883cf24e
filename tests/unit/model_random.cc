// test: timeout=120 labels=sequential processors=3
// uses: tests/unit/model/random_job.cc analyzer
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/judge/judge.h"
#include "tests/unit/model/random_job.h"

namespace traintrace {
namespace {

constexpr TimeNs kSecond = 1'000'000'000;
constexpr uint32_t kJobs = jobs_of(3000);

std::vector<Finding> judge(std::vector<ProcessTrace> traces) {
  Result<JudgedRun> judged = judge(std::move(traces), {}, {});
  EXPECT_TRUE(judged);
  return std::move(judged->findings);
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += std::string(finding.code) + ": " + finding.title + "\n";
    for (const std::string& line : finding.evidence) {
      text += "    " + line + "\n";
    }
  }
  return text;
}

// Killed at any moment, all within half a second.
TEST(RandomJobs, NobodyIsAccusedInAJobThatMoves) {
  for (uint32_t seed = 0; seed < kJobs; ++seed) {
    RandomJob job(seed);
    std::mt19937 random(seed);
    const TimeNs end = std::uniform_int_distribution(RandomJob::kStart + kSecond,
                                                     job.last_finished + kSecond)(random);
    const std::vector<Finding> findings = judge(job.traces(end, kSecond / 2));
    ASSERT_TRUE(
        std::none_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity != Severity::kInfo; }))
        << "seed " << seed << "\n"
        << text_of(findings);
  }
}

void expect_one_root(uint32_t seed, RandomJob::Mishap mishap, const char* code) {
  RandomJob job(seed);
  job.let(mishap);
  const std::set<int> stuck = job.stuck();
  if (stuck.empty()) {
    return;  // nobody needed it any more
  }
  const TimeNs end = std::max(job.last_finished, job.happened) + 20 * kSecond;
  const std::vector<Finding> findings = judge(job.traces(end, kSecond / 2));
  std::vector<Finding> errors;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(errors),
               [](const Finding& finding) { return finding.severity == Severity::kError; });
  ASSERT_EQ(errors.size(), 1) << "seed " << seed << "\n" << text_of(findings);
  EXPECT_EQ(errors[0].code, code) << "seed " << seed;
  // One against one: the one that did not come, if what the other called was no new thing; else
  // nobody can say who is wrong, unless one has ended.
  const bool judged = stuck.size() > 1 || mishap != RandomJob::Mishap::kWanders;
  if (judged || !errors[0].culprits.empty()) {
    EXPECT_EQ(errors[0].culprits, Ranks{{job.victim}}) << "seed " << seed << "\n"
                                                       << text_of(findings);
  }
  for (int rank = 0; rank < job.ranks; ++rank) {
    // Who never asks whether its last operation is done waits in it, as far as anybody knows.
    const bool may_wait = mishap != RandomJob::Mishap::kWanders && !job.observes(rank);
    if (stuck.contains(rank) || !may_wait) {
      EXPECT_EQ(contains(errors[0].victims, {rank}), stuck.contains(rank))
          << "rank " << rank << " seed " << seed << "\n"
          << text_of(findings);
    }
  }
}

TEST(RandomJobs, TheRankThatWandersIsTheOnlyRoot) {
  for (uint32_t seed = 0; seed < kJobs && !testing::Test::HasFailure(); ++seed) {
    expect_one_root(seed, RandomJob::Mishap::kWanders, "collective.missing-rank");
  }
}

TEST(RandomJobs, TheRankThatDiesIsTheOnlyRoot) {
  for (uint32_t seed = 0; seed < kJobs && !testing::Test::HasFailure(); ++seed) {
    expect_one_root(seed, RandomJob::Mishap::kDies, "collective.dead-rank");
  }
}

// As if nobody had noted that it ended.
TEST(RandomJobs, TheRankThatFallsSilentIsNotBlamed) {
  for (uint32_t seed = 0; seed < kJobs; ++seed) {
    RandomJob job(seed);
    job.let(RandomJob::Mishap::kDies);
    const TimeNs end = std::max(job.last_finished, job.happened) + 20 * kSecond;
    std::vector<ProcessTrace> traces = job.traces(end, kSecond / 2);
    for (ProcessTrace& trace : traces) {
      trace.gone = 0;
    }
    for (const Finding& finding : judge(std::move(traces))) {
      if (finding.severity == Severity::kError) {
        ASSERT_EQ(finding.code, "collective.dead-rank") << "seed " << seed;
        ASSERT_EQ(finding.certainty, Certainty::kPossible) << "seed " << seed;
        ASSERT_TRUE(finding.culprits.empty()) << "seed " << seed;
        ASSERT_NE(finding.title.find("silent"), std::string::npos) << finding.title;
      }
    }
  }
}

TEST(RandomJobs, TheRankThatFailsIsTheOnlyRoot) {
  for (uint32_t seed = 0; seed < kJobs && !testing::Test::HasFailure(); ++seed) {
    expect_one_root(seed, RandomJob::Mishap::kFails, "collective.early-exit");
  }
}

// Killed together with the others, a moment after it stopped: whatever is said, nobody else is
// blamed, and nothing is called a proof.
TEST(RandomJobs, KilledAtOnceNobodyElseIsBlamed) {
  for (uint32_t seed = 0; seed < kJobs; ++seed) {
    RandomJob job(seed);
    job.let(RandomJob::Mishap::kDies);
    const std::vector<Finding> findings =
        judge(job.traces(job.happened + kSecond / 2, kSecond / 2));
    for (const Finding& finding : findings) {
      if (finding.severity == Severity::kError) {
        ASSERT_TRUE(finding.culprits.empty()) << "seed " << seed << "\n" << text_of(findings);
        ASSERT_NE(finding.certainty, Certainty::kProof) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace traintrace
