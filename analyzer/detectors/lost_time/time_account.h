// Conservation: what a GPU lost must be named by findings, or the report says how much is not.
#pragma once

#include <array>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/lost_time.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {

// Kinds of loss in the loop: each cause of idle time, communication that nothing was computed
// beside, and copies and sets of memory that nothing was computed or communicated beside.
inline constexpr size_t kExposedLoss = kIdleCauses;
inline constexpr size_t kCopyLoss = kIdleCauses + 1;
// All of it before the loop, which is paid for once: it has a name of its own.
inline constexpr size_t kStartUpLoss = kIdleCauses + 2;
inline constexpr size_t kLossKinds = kIdleCauses + 3;
using LossTimes = std::array<int64_t, kLossKinds>;

// What a GPU lost, by kind.
LossTimes losses_of(const DeviceProfile& device);
// Of that, what no finding is about, and is no start-up.  A finding never names more than there is.
LossTimes unnamed_losses(const DeviceProfile& device, const std::vector<Finding>& findings);

// By rank and device.
std::vector<LostTime> lost_times(const Profile& profile, const std::vector<Finding>& findings);

// latency.unattributed: where findings leave too much of what was lost without a name.
std::vector<Finding> find_unattributed(const Profile& profile,
                                       const std::vector<Finding>& findings);

}  // namespace traintrace
