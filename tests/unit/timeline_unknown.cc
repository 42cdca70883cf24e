// uses: analyzer
#include <gtest/gtest.h>

#include "analyzer/commands/sources/gpu_timelines.h"
#include "analyzer/detectors/lost_time/latency.h"

namespace traintrace {
namespace {

Run run_of(int ranks, bool recorded_by_us) {
  Run run;
  run.world_size = ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    ProcessTrace& trace = run.processes.emplace_back();
    if (recorded_by_us) {
      trace.facts["traintrace-version"] = "1";
    }
    run.ranks.push_back({{rank}, static_cast<size_t>(rank), -1, Ending::kExited, 0});
  }
  return run;
}

Finding finding_of(std::string_view code, Severity severity) {
  Finding finding;
  finding.code = code;
  finding.severity = severity;
  return finding;
}

TEST(WithoutTimeline, IsSaidBesideTheVerdictThatNothingIsWrong) {
  std::vector<Finding> findings = {finding_of("run.healthy", Severity::kInfo)};
  traintrace::Run run = run_of(2, true);
  add_latency(run, findings);
  ASSERT_EQ(findings.size(), 1U);
  ASSERT_EQ(findings[0].evidence.size(), 1U);
  EXPECT_NE(findings[0].evidence[0].find("for ranks 0,1, so lost GPU time cannot be"),
            std::string::npos);
  EXPECT_NE(findings[0].evidence[0].find("TRAINTRACE_GPU_TIMELINE=cupti"), std::string::npos);
}

TEST(WithoutTimeline, IsAnInfoBehindWarnings) {
  std::vector<Finding> findings = {finding_of("memory.unaccounted", Severity::kWarning)};
  traintrace::Run run = run_of(1, true);
  add_latency(run, findings);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].code, "memory.unaccounted");
  EXPECT_EQ(findings[1].code, "trace.incomplete-timeline");
  EXPECT_EQ(findings[1].severity, Severity::kInfo);
  EXPECT_TRUE(findings[1].culprits.empty());
  EXPECT_EQ(findings[1].advice, "rerun with TRAINTRACE_GPU_TIMELINE=cupti");
}

TEST(WithoutTimeline, IsNoMatterWhereTheRunWentWrongOrOthersRecordedIt) {
  std::vector<Finding> findings = {finding_of("collective.missing-rank", Severity::kError)};
  traintrace::Run ours = run_of(2, true);
  add_latency(ours, findings);
  EXPECT_EQ(findings.size(), 1U);
  findings = {finding_of("run.healthy", Severity::kInfo)};
  traintrace::Run theirs = run_of(2, false);
  add_latency(theirs, findings);
  EXPECT_TRUE(findings.size() == 1 && findings[0].evidence.empty());
}

// So many gaps, which are a third of the window.
std::vector<Finding> synchronised(int64_t gaps, int64_t gap_ns, bool by_host) {
  Profile profile;
  profile.timelines.emplace_back();
  DeviceProfile& device = profile.devices.emplace_back();
  device.by_host = by_host;
  device.times.window_ns = 3 * gaps * gap_ns;
  device.times.idle_ns = gaps * gap_ns;
  device.idle[static_cast<size_t>(IdleCause::kSyncInduced)] = gaps * gap_ns;
  IdleSite& site = device.sites.emplace_back(
      IdleSite{IdleCause::kSyncInduced, "cudaStreamSynchronize", "train.py(7): step"});
  site.ns = gaps * gap_ns;
  for (int64_t i = 0; i < gaps; ++i) {
    site.gaps.push_back({gap_ns, 3 * (i + 1) * gap_ns});
  }
  return find_sync_in_loop(profile);
}

TEST(WithoutTimeline, AProgramOfMillisecondsHasNoLoop) {
  EXPECT_EQ(synchronised(20, 2'500'000, true).size(), 1U);
  EXPECT_EQ(synchronised(20, 2'499'999, true).size(), 0U);
  EXPECT_EQ(synchronised(20, 50'000, true).size(), 0U);
  EXPECT_EQ(synchronised(20, 50'000, false).size(), 1U);
}

TEST(WithoutTimeline, AProgramOfFewTurnsHasNoLoop) {
  EXPECT_EQ(synchronised(19, 50'000'000, true).size(), 0U);
  EXPECT_EQ(synchronised(19, 50'000'000, false).size(), 1U);
}

}  // namespace
}  // namespace traintrace
