#include "analyzer/reporters/tables/report_cause.h"

#include <algorithm>

#include "analyzer/detectors/lost_time/gains.h"

namespace traintrace {

ReportTable report_by_cause(const Profile& profile) {
  ReportTable table{"cause",
                    {"rank", "device", "cause", "lost_ns", "window_ns", "replayed_ns", "gain_ns",
                     "step_count", "step_ns", "step_without_ns", "source"},
                    {}};
  std::vector<CauseGain> gains = gains_by_cause(profile);
  const auto gain_of = [&](const CauseGain& gain) {
    return std::max<int64_t>(0,
                             profile.devices[gain.device].whole.window_ns - gain.without.window_ns);
  };
  std::stable_sort(gains.begin(), gains.end(), [&](const CauseGain& a, const CauseGain& b) {
    const bool a_later = std::string_view(a.cause) != "none";
    const bool b_later = std::string_view(b.cause) != "none";
    return std::tuple(a.device, a_later, a_later ? -gain_of(a) : 0) <
           std::tuple(b.device, b_later, b_later ? -gain_of(b) : 0);
  });
  for (const CauseGain& gain : gains) {
    const DeviceProfile& device = profile.devices[gain.device];
    const auto steps = static_cast<int64_t>(device.steps);
    const auto per_step = [&](int64_t ns) {
      return steps < 2 ? ReportCell() : ReportCell(device.per_step(ns));
    };
    table.rows.push_back(
        {int64_t{device.rank.value}, int64_t{device.device}, std::string(gain.cause), gain.lost_ns,
         device.whole.window_ns, gain.without.window_ns, gain_of(gain),
         steps == 0 ? ReportCell() : ReportCell(steps), per_step(device.times.window_ns),
         per_step(gain.without.loop_ns), profile.timelines[device.timeline].source});
  }
  return table;
}

}  // namespace traintrace
