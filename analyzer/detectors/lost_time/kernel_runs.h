// How long each run of a kernel took on a GPU, and what else there was meanwhile: what is compared
// between GPUs that run the same kernels.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/timeline/profile.h"

namespace traintrace {

inline constexpr int kDisturbed = std::numeric_limits<int>::max();

struct KernelRun {
  int64_t ns;
  // How many kernels that only waited for other ranks ran on the device meanwhile; kDisturbed:
  // something that computed or moved data.
  int beside;
  size_t part;  // part_of_window
};

// By name and GpuWork::shape, in the order of their starts.
using KernelRuns = std::map<std::pair<std::string, uint16_t>, std::deque<KernelRun>>;

using PerMille = std::vector<int64_t>;  // ratios of lengths; 1000: as long as usual

int64_t per_mille(int64_t ns, int64_t of_ns);
// By the median.
bool is_slower(PerMille ratios);

// Of all kernels that compute.  `waited_until`: of the timeline (peer_waits.h).
KernelRuns kernel_runs(const Profile& profile, const DeviceProfile& device,
                       const std::vector<int64_t>& waited_until);

}  // namespace traintrace
