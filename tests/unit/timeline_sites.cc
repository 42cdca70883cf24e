// uses: analyzer
// At which places a GPU was idle, and in how many gaps.
#include <gtest/gtest.h>

#include "analyzer/timeline/profile.h"

namespace traintrace {
namespace {

constexpr int64_t kUs = 1000;

// cudaFree of 80 us runs into the gap, and is the reason for the time after it as well.
TEST(IdleSites, AGapThatHasSeveralPartsOfACauseIsOne) {
  Timeline timeline;
  timeline.rank = 0;
  timeline.names = {"cudaLaunchKernel", "kernel", "cudaFree"};
  timeline.threads = {"1"};
  for (int64_t step = 0; step < 3; ++step) {
    const auto at = [&](int64_t us) { return (200 * step + us) * kUs; };
    const auto id = static_cast<uint64_t>(step + 1);
    timeline.calls.push_back({at(0), at(1), id, 0, 0, HostCallKind::kOther});
    timeline.work.push_back({at(1), at(100), id, 1, 7, 0, WorkKind::kCompute});
    timeline.calls.push_back({at(30), at(110), 0, 2, 0, HostCallKind::kAllocator});
  }
  std::vector<Timeline> timelines;
  timelines.push_back(std::move(timeline));
  const Profile profile = build_profile(std::move(timelines));
  ASSERT_EQ(profile.devices.size(), 1u);
  const IdleSite& freed = profile.devices[0].sites.front();
  EXPECT_EQ(freed.cause, IdleCause::kAllocator);
  EXPECT_EQ(freed.call, "cudaFree");
  EXPECT_EQ(freed.ns, 160 * kUs);  // 10 in it, and 70 of the 90 after it
  ASSERT_EQ(freed.gaps.size(), 2u);
  EXPECT_EQ(freed.gaps[0].ns, 80 * kUs);
  EXPECT_EQ(freed.gaps[1].ns, 80 * kUs);
}

}  // namespace
}  // namespace traintrace
