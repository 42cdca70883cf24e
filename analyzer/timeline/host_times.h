// What the host of a process spends its time on between launches.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

enum class HostTime : uint8_t {
  kLoader,     // a thread that launches gets the next batch of data
  kLaunching,  // from one launch to the next, without calls that wait, the loader, the allocator
};

// In ns of the timeline, disjoint and in order; those of two launches touch.
std::vector<Span> host_times(const Timeline& timeline, HostTime kind);

// Of those that meet one of `losers` (in Profile::devices) in a collective, the GPUs that computed
// nothing while their hosts did the same, for a good part (`alike`) of the losers' usual time: they
// need not be idle, as who waits in a collective is not.
std::vector<const DeviceProfile*> alike(const Profile& profile, const std::vector<size_t>& losers,
                                        HostTime kind);

}  // namespace traintrace
