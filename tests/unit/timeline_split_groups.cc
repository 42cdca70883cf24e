// uses: analyzer
// Timelines of ranks whose groups were made by ncclCommSplit, of which no rank is told the size;
// and of which some end early.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "analyzer/commands/sources/gpu_timelines.h"
#include "analyzer/detectors/lost_time/latency.h"
#include "analyzer/judge/load.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/recorded/recorded.h"

namespace traintrace {
namespace {

constexpr int kRanks = 6;
constexpr int kSteps = 80;
constexpr int64_t kUs = 1000;
constexpr int64_t kLateNs = 3000 * kUs;

// A job of groups, each with a collective in each step.
struct GroupedJob {
  int late = -1;          // the host of this rank needs longer before each step
  int slow = -1;          // the GPU of this one for each kernel
  int untraced = -1;      // that left no trace
  int cut = -1;           // of which what the GPU did in the last steps was not recorded
  int cut_steps = 8;      // how many these are
  int busy = -1;          // that has a kernel more in each step
  int group = 3;          // ranks of each
  bool all_meet = false;  // once, before the first step

  int64_t kernel_ns(int rank) const { return (rank == slow ? 1500 : 1000) * kUs; }
  int kernels_of(int rank) const { return rank == busy ? 4 : 3; }
  int64_t work_ns(int rank) const { return kernels_of(rank) * kernel_ns(rank); }
  int64_t late_ns(int rank) const { return rank == late ? kLateNs : 0; }
  // Until the collective begins on the last rank of the group.
  int64_t step_ns(int rank) const {
    int64_t longest = 0;
    for (int other = rank / group * group; other < (rank / group + 1) * group; ++other) {
      longest = std::max(longest, late_ns(other) + work_ns(other));
    }
    return longest;
  }
};

class RankText {
 public:
  RankText(int rank, int group) : rank_(rank) {
    text_ = fmt::format(
        "process {0} rank={0} world=6 host=a pid={1} start-time={1} exit=exit exited=+9\n"
        "fact traintrace-version 1\nkernel 0x1 first\nkernel 0x2 second\nkernel 0x3 third\nkernel "
        "0x4 fourth\n"
        "kernel 0x9 ncclDevKernel_AllReduce_Sum_f32_RING_LL\n"
        "thread 1 tid={1}\n"
        "communicator 1 id=0x66 size=6 rank={0} origin=init-rank ordinal=1 flags=ready "
        "created=+0.001 ready=+0.002\n"
        "communicator 2 id=0xb{2} origin=split parent=0x66 ordinal=1 color={2} key={0} flags=ready "
        "created=+0.003 ready=+0.004 parent-index=1\n",
        rank, rank + 100, group);
    at(0, fmt::format("* gpuClock start={}", kGpuClock));
    at(8'000'000'000, fmt::format("* gpuClock start={}", kGpuClock + 8'000'000'000));
  }

  // Times in ns; what the host calls around the launch, if anything.
  void launch(int64_t host_ns, const std::string& call, int function, int64_t start_ns,
              int64_t duration_ns) {
    ++correlation_;
    if (!call.empty()) {
      at(host_ns, "> " + call);
    }
    at(host_ns, fmt::format("> cuLaunchKernel function={}", function));
    at(host_ns + 1, fmt::format("* gpuLaunch correlation={}", correlation_));
    at(host_ns + 2, "< cuLaunchKernel =CUDA_SUCCESS");
    if (!call.empty()) {
      at(host_ns + 3, "< ncclAllReduce =ncclSuccess");
    }
    if (ends_) {
      return;
    }
    at(start_ns + duration_ns,
       fmt::format("* gpuKernel start={} duration={} correlation={} gpu_stream=7 function={} "
                   "grid=1x1x1 block=1x1x1 on-device=0",
                   kGpuClock + start_ns, duration_ns, correlation_, function));
  }
  void collective(int64_t host_ns, int communicator, int sequence, int64_t start_ns,
                  int64_t end_ns) {
    launch(
        host_ns,
        fmt::format("ncclAllReduce comm={} seq={} count=1024 type=float32", communicator, sequence),
        9, start_ns, end_ns - start_ns);
  }
  void synchronise(int64_t begin_ns, int64_t end_ns) {
    at(begin_ns, "> cudaStreamSynchronize");
    at(end_ns, "< cudaStreamSynchronize =cudaSuccess");
  }

  // No more is recorded of the GPU.
  void end_timeline() { ends_ = true; }

  std::string take() {
    std::stable_sort(lines_.begin(), lines_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [ns, line] : lines_) {
      text_ += line;
    }
    return std::move(text_);
  }

 private:
  static constexpr int64_t kGpuClock = 1'700'000'000'000'000'000;

  void at(int64_t ns, const std::string& what) {
    lines_.emplace_back(ns, fmt::format("+{}.{:09} {}/1 {}\n", ns / 1'000'000'000,
                                        ns % 1'000'000'000, rank_, what));
  }

  int rank_;
  int correlation_ = 0;
  bool ends_ = false;
  std::string text_;
  std::vector<std::pair<int64_t, std::string>> lines_;
};

std::string text_of(const GroupedJob& job, int rank) {
  RankText text(rank, rank / job.group);
  int64_t now = 10'000'000;
  if (job.all_meet) {
    text.collective(now, 1, 1, now + 5 * kUs, now + 60 * kUs);
    text.synchronise(now + 10 * kUs, now + 61 * kUs);
    now += 100 * kUs;
  }
  for (int step = 0; step < kSteps; ++step) {
    if (rank == job.cut && step == kSteps - job.cut_steps) {
      text.end_timeline();
    }
    const int64_t host = now + job.late_ns(rank);
    int64_t gpu = host + 5 * kUs;
    for (int kernel = 0; kernel < job.kernels_of(rank); ++kernel) {
      text.launch(host + kernel * kUs, "", kernel + 1, gpu, job.kernel_ns(rank));
      gpu += job.kernel_ns(rank);
    }
    const int64_t end = now + job.step_ns(rank) + 60 * kUs;
    text.collective(host + 5 * kUs, 2, step + 1, gpu, end);
    text.synchronise(host + 10 * kUs, end + kUs);
    now = end + 20 * kUs;
  }
  return text.take();
}

// With what the ranks' traces together say of sizes.
Profile profile_of(const GroupedJob& job) {
  std::string text = "start 1700000000\n";
  for (int rank = 0; rank < kRanks; ++rank) {
    text += rank == job.untraced ? "" : text_of(job, rank);
  }
  Result<DumpText> dump = parse_dump(text, "test");
  EXPECT_TRUE(dump) << dump.error().message;
  const Result<Run> run = assembled_run(std::move(dump->processes));
  EXPECT_TRUE(run);
  Symbolizer symbolizer;
  std::vector<Timeline> timelines;
  for (const RankState& state : run->ranks) {
    timelines.push_back(
        recorded_timeline(trace_of(*run, state), state.rank, job_sizes(*run), symbolizer));
  }
  return build_profile(std::move(timelines));
}

const Finding* found(const std::vector<Finding>& findings, std::string_view code) {
  const auto finding = std::find_if(findings.begin(), findings.end(),
                                    [&](const Finding& each) { return each.code == code; });
  return finding == findings.end() ? nullptr : &*finding;
}

TEST(SplitGroups, HaveAllTheirRanks) {
  const std::vector<Finding> findings = find_in_profile(profile_of({.late = 4}));
  EXPECT_EQ(found(findings, "trace.incomplete-timeline"), nullptr);
  const Finding* const straggler = found(findings, "latency.straggler");
  ASSERT_NE(straggler, nullptr);
  EXPECT_EQ(straggler->culprits, (Ranks{{4}}));
  EXPECT_EQ(straggler->victims, (Ranks{{3}, {5}}));
}

TEST(SplitGroups, LoseNothingWhereNobodyIsLate) {
  const std::vector<Finding> findings = find_in_profile(profile_of({}));
  EXPECT_NE(found(findings, "run.healthy"), nullptr);
  EXPECT_EQ(found(findings, "trace.incomplete-timeline"), nullptr);
}

// Rank 4 may be in either group.
TEST(SplitGroups, AreOfUnknownSizeWhereARankLeftNoTrace) {
  const std::vector<Finding> findings = find_in_profile(profile_of({.late = 3, .untraced = 4}));
  EXPECT_EQ(found(findings, "latency.straggler"), nullptr);
  const Finding* const incomplete = found(findings, "trace.incomplete-timeline");
  ASSERT_NE(incomplete, nullptr);
  EXPECT_NE(incomplete->title.find("ranks, and how many are in it is not known"), std::string::npos)
      << incomplete->title;
}

// Who met it once, before the first step, waits for nobody in the other group.
TEST(SplitGroups, WaitForTheSlowDeviceOfTheirOwnOnly) {
  const std::vector<Finding> findings = find_in_profile(profile_of({.slow = 4, .all_meet = true}));
  const Finding* const slow = found(findings, "latency.slow-device");
  ASSERT_NE(slow, nullptr);
  EXPECT_EQ(slow->culprits, (Ranks{{4}}));
  EXPECT_EQ(slow->victims, (Ranks{{3}, {5}}));
}

// The others have more kernels on record, and no more to do.
TEST(TimelinesThatEndEarly, AreComparedInWhatAllHave) {
  for (const int cut : {1, 3, 4}) {
    const std::vector<Finding> findings = find_in_profile(profile_of({.slow = 4, .cut = cut}));
    const Finding* const slow = found(findings, "latency.slow-device");
    ASSERT_NE(slow, nullptr) << cut;
    EXPECT_EQ(slow->culprits, (Ranks{{4}})) << cut;
    const Finding* const straggler = found(findings, "latency.straggler");
    ASSERT_NE(straggler, nullptr) << cut;
    EXPECT_NE(straggler->title.find("its GPU takes longer for the same kernels"), std::string::npos)
        << cut << straggler->title;
  }
}

// Of two, who has more to do is shown by all others.
TEST(TimelinesThatEndEarly, ShowWhoOfTwoHasMoreToDo) {
  for (const int cut : {-1, 1}) {
    const std::vector<Finding> findings =
        find_in_profile(profile_of({.cut = cut, .cut_steps = 30, .busy = 4, .group = 2}));
    const Finding* const straggler = found(findings, "latency.straggler");
    ASSERT_NE(straggler, nullptr) << cut;
    EXPECT_EQ(straggler->culprits, (Ranks{{4}})) << cut;
    EXPECT_EQ(straggler->victims, (Ranks{{5}})) << cut;
  }
  // And where all have as much to do, none.
  EXPECT_EQ(found(find_in_profile(profile_of({.cut = 4, .cut_steps = 30, .group = 2})),
                  "latency.straggler"),
            nullptr);
}

TEST(TimelinesThatEndEarly, ShowWhoseHostIsLate) {
  for (const int cut : {3, 4}) {
    const std::vector<Finding> findings = find_in_profile(profile_of({.late = 4, .cut = cut}));
    const Finding* const straggler = found(findings, "latency.straggler");
    ASSERT_NE(straggler, nullptr) << cut;
    EXPECT_EQ(straggler->culprits, (Ranks{{4}})) << cut;
    EXPECT_EQ(straggler->certainty, Certainty::kProof) << cut;
  }
}

TEST(TimelinesThatEndEarly, MakeNobodyLate) {
  const std::vector<Finding> findings = find_in_profile(profile_of({.cut = 4}));
  EXPECT_NE(found(findings, "run.healthy"), nullptr);
  EXPECT_EQ(found(findings, "trace.incomplete-timeline"), nullptr);
}

// What is said of a run whose timelines these are.
std::vector<Finding> with_lost_tails(const GroupedJob& job, std::string_view code,
                                     Severity severity, bool live) {
  traintrace::Run run;
  run.live = live;
  run.profile = std::make_shared<const Profile>(profile_of(job));
  std::vector<Finding> findings(1);
  findings[0].code = code;
  findings[0].severity = severity;
  say_lost_tails(run, findings);
  return findings;
}

TEST(TimelinesThatEndEarly, MakeItLikelyThatNothingIsWrong) {
  const std::vector<Finding> findings =
      with_lost_tails({.cut = 4}, "run.healthy", Severity::kInfo, false);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].certainty, Certainty::kLikely);
  ASSERT_EQ(findings[0].evidence.size(), 1U);
  EXPECT_TRUE(findings[0].evidence[0].starts_with(
      "the GPU timeline of rank 4 ends early: of the last 32 of 320 launches of kernels no work"))
      << findings[0].evidence[0];
}

TEST(TimelinesThatEndEarly, AreAnInfoBehindWarnings) {
  const std::vector<Finding> findings =
      with_lost_tails({.cut = 4}, "latency.host-bound", Severity::kWarning, false);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[1].code, "trace.incomplete-timeline");
  EXPECT_EQ(findings[1].severity, Severity::kInfo);
  EXPECT_EQ(findings[1].sides, (std::vector<Ranks>{{{4}}}));
}

TEST(TimelinesThatEndEarly, AreNoneOfWholeOnesAndOfThoseThatGoOn) {
  for (const auto& findings :
       {with_lost_tails({}, "run.healthy", Severity::kInfo, false),
        with_lost_tails({.cut = 4}, "run.in-progress", Severity::kInfo, true)}) {
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings[0].certainty, Certainty::kProof);
    EXPECT_TRUE(findings[0].evidence.empty());
  }
}

// "ID=SIZE" of each communicator whose size is known.
std::vector<std::string> sizes_of(const std::vector<std::string>& ranks) {
  std::string text = "start 1700000000\n";
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    text += fmt::format(
                "process {0} rank={0} world={1} host=a pid={2} start-time={2}\n"
                "communicator 1 id=0x66 size={1} rank={0} origin=init-rank flags=ready "
                "created=+0.001 ready=+0.002\n",
                rank, ranks.size(), rank + 100) +
            ranks[rank];
  }
  Result<DumpText> dump = parse_dump(text, "test");
  EXPECT_TRUE(dump) << dump.error().message;
  const Result<Run> run = assembled_run(std::move(dump->processes));
  EXPECT_TRUE(run);
  std::vector<std::string> sizes;
  for (const auto& [id, size] : job_sizes(*run).communicators) {
    sizes.push_back(fmt::format("{:x}={}", id, size));
  }
  return sizes;
}
using Sizes = std::vector<std::string>;

constexpr const char* kSplit =
    "communicator 2 id=0xa1 origin=split parent=0x66 ordinal=1 flags=ready created=+0.003 "
    "ready=+0.004 parent-index=1\n";
constexpr const char* kShrunk =
    "communicator 3 id=0xb2 origin=shrink parent=0xa1 ordinal=1 flags=ready created=+0.005 "
    "ready=+0.006 parent-index=2\n";
constexpr const char* kNotYetShrunk =
    "communicator 3 id=0xb2 origin=shrink parent=0xa1 ordinal=1 created=+0.005 parent-index=2\n";

TEST(JobSizes, AreThoseOfAllMembersOfASplitAndOfAShrinkOfThat) {
  const std::string both = std::string(kSplit) + kShrunk;
  EXPECT_EQ(sizes_of({both, kSplit, both}), (Sizes{"66=3", "a1=3", "b2=2"}));
}

TEST(JobSizes, AreNotKnownWhereSomeMayYetCall) {
  EXPECT_EQ(sizes_of({std::string(kSplit) + kNotYetShrunk, kSplit}), (Sizes{"66=2", "a1=2"}));
  EXPECT_EQ(sizes_of({kSplit, ""}), (Sizes{"66=2"}));
}

TEST(JobSizes, AreNotThoseOfAParentThatNobodySawMade) {
  constexpr const char* kOfUnknown =
      "communicator 2 id=0x77 origin=unknown\n"
      "communicator 3 id=0xa1 origin=split parent=0x77 ordinal=1 flags=ready created=+0.003 "
      "ready=+0.004 parent-index=2\n";
  EXPECT_EQ(sizes_of({kOfUnknown, ""}), (Sizes{"66=2"}));
}

}  // namespace
}  // namespace traintrace
