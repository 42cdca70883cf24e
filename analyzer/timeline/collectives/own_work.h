// What work of its own a GPU had between two collectives.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Where a kernel stands in what its process launched; start_ns orders what one graph launched.
struct LaunchPlace {
  int64_t launch_ns;
  int64_t start_ns;

  auto operator<=>(const LaunchPlace&) const = default;  // NOLINT(modernize-use-nullptr)
};

using Launches = std::unordered_map<uint64_t, const HostCall*>;  // by correlation
Launches launches_of(const Timeline& timeline);

// When each piece of work was launched.  Where that was not recorded, as before the recording began
// while the host ran ahead: with what was launched before it on its stream, else before everything.
std::vector<int64_t> launch_times(const Timeline& timeline, const Launches& launches);

// The time that a device spent on computing and copies which were launched after the collective
// before and before this one; 0 for the first.  By launch, not by time: a GPU that waits in a
// collective may compute what belongs after it meanwhile.  `launch_of` gives the time of the launch
// of a piece of work.
std::vector<int64_t> worked_between(const Timeline& timeline, int32_t device,
                                    const std::vector<LaunchPlace>& collectives,
                                    const std::function<int64_t(const GpuWork&)>& launch_of);

}  // namespace traintrace
