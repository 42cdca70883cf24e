#include "analyzer/detectors/lost_time/kernel_runs.h"

#include <algorithm>
#include <utility>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

// What else there is on a device while something is computed there.
class Beside {
 public:
  Beside(const Timeline& timeline, int device, const std::vector<int64_t>& waited_until) {
    std::vector<Span> moving;
    for (size_t i = 0; i < timeline.work.size(); ++i) {
      const GpuWork& work = timeline.work[i];
      if (work.device == device && work.kind != WorkKind::kCompute) {
        moving.push_back({waited_until[i], work.end_ns});
        if (waited_until[i] > work.start_ns) {
          begins_.push_back(work.start_ns);
          ends_.push_back(waited_until[i]);
        }
      }
    }
    moving_ = united(std::move(moving));
    std::sort(begins_.begin(), begins_.end());
    std::sort(ends_.begin(), ends_.end());
  }

  int at(const Span& span) const {
    const auto begun = std::lower_bound(begins_.begin(), begins_.end(), span.end_ns);
    const auto ended = std::upper_bound(ends_.begin(), ends_.end(), span.begin_ns);
    return !within(moving_, span).empty()
               ? kDisturbed
               : static_cast<int>((begun - begins_.begin()) - (ended - ends_.begin()));
  }

 private:
  Spans moving_;
  std::vector<int64_t> begins_, ends_;  // of waiting
};

}  // namespace

int64_t per_mille(int64_t ns, int64_t of_ns) {
  const double ratio = static_cast<double>(ns) / static_cast<double>(of_ns);
  return static_cast<int64_t>(1000 * std::min(ratio, 1000.0));
}

bool is_slower(PerMille ratios) {
  return static_cast<double>(upper_median(std::move(ratios))) >= 1000 * kSlowDeviceSlower;
}

KernelRuns kernel_runs(const Profile& profile, const DeviceProfile& device,
                       const std::vector<int64_t>& waited_until) {
  const Timeline& timeline = profile.timelines[device.timeline];
  const Beside beside(timeline, device.device, waited_until);
  KernelRuns kernels;
  KernelRun* last = nullptr;  // of those so far, the one that ends last
  int64_t end = std::numeric_limits<int64_t>::min();
  for (const GpuWork& work : timeline.work) {
    if (work.device != device.device || work.kind != WorkKind::kCompute) {
      continue;
    }
    const bool alone = work.start_ns >= end;
    if (!alone && last != nullptr) {
      last->beside = kDisturbed;
    }
    std::deque<KernelRun>& runs = kernels[{timeline.names[work.name], work.shape}];
    runs.push_back({work.end_ns - work.start_ns,
                    alone ? beside.at({work.start_ns, work.end_ns}) : kDisturbed,
                    part_of_window(device, work.start_ns)});
    if (work.end_ns > end) {
      end = work.end_ns;
      last = &runs.back();
    }
  }
  return kernels;
}

}  // namespace traintrace
