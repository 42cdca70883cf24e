// What the host of a process spends its time on between launches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

enum class HostTime : uint8_t {
  kLoader,     // a thread that launches gets the next batch of data
  kLaunching,  // from one launch to the next, without calls that wait, the loader, the allocator
};

// Host time before launches: each since the launch before, or since its own thread was last back
// from a call that waits.
class TimesBeforeLaunches {
 public:
  // The first launch has none before it, unless `since_ns` says since when.
  explicit TimesBeforeLaunches(size_t threads, std::optional<int64_t> since_ns = std::nullopt)
      : returned_ns_(threads, since_ns.value_or(0)), launched_ns_(since_ns) {}

  // In the order of their starts; a call may be both.
  void launch(uint32_t thread, int64_t start_ns) {
    const int64_t since = std::max(launched_ns_.value_or(start_ns), returned_ns_[thread]);
    if (launched_ns_ && start_ns > since) {
      times_.push_back({since, start_ns});
    }
    launched_ns_ = std::max(launched_ns_.value_or(start_ns), start_ns);
  }
  void wait(uint32_t thread, int64_t end_ns) {
    returned_ns_[thread] = std::max(returned_ns_[thread], end_ns);
  }
  std::vector<Span> take() { return std::move(times_); }

 private:
  std::vector<int64_t> returned_ns_;  // by thread
  std::optional<int64_t> launched_ns_;
  std::vector<Span> times_;
};

// In ns of the timeline, disjoint and in order; those of two launches touch.
std::vector<Span> host_times(const Timeline& timeline, HostTime kind);

// From the end of a launch to the start of what it launched, the median of the work that `counts`;
// 0: the launch of none was recorded.
int64_t median_lead(const Timeline& timeline, std::span<const GpuWork> work,
                    const std::function<bool(const GpuWork&)>& counts);

// Of those that meet one of `losers` (in Profile::devices) in a collective, the GPUs that computed
// nothing while their hosts did the same, for a good part (`alike`) of the losers' usual time: they
// need not be idle, as who waits in a collective is not.
std::vector<const DeviceProfile*> alike(const Profile& profile, const std::vector<size_t>& losers,
                                        HostTime kind);

}  // namespace traintrace
