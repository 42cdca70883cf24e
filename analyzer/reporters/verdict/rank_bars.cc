#include "analyzer/reporters/verdict/rank_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {
namespace {

constexpr size_t kBar = 30;
constexpr size_t kMostRows = 8;

size_t part_of(const DeviceProfile& device, int64_t ns) {
  return static_cast<size_t>(std::lround(device.share(ns) * static_cast<double>(kBar)));
}

// What a launch that came late cost is one cause here, as it is in latency.host-bound: until it was
// called, while it ran, and from its return.
std::string main_cause_text(const DeviceProfile& device) {
  constexpr const char* kLate = "late launches";
  std::map<std::string, int64_t> causes;
  for (size_t i = 0; i < kIdleCauses; ++i) {
    causes[is_launch(static_cast<IdleCause>(i)) ? kLate : kIdleCauseNames[i]] += device.idle[i];
  }
  const auto most =
      std::max_element(causes.begin(), causes.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->second == 0
             ? ""
             : fmt::format("{} {:.0f} %", most->first, 100 * device.share(most->second));
}

std::string row_of(const DeviceProfile& device, const Screen& screen) {
  const TimePartition& times = device.times;
  const size_t compute = part_of(device, times.compute_ns);
  const size_t waits =
      std::min(part_of(device, times.exposed_communication_ns), kBar - std::min(compute, kBar));
  const size_t copies =
      std::min(part_of(device, times.exposed_memory_ns), kBar - std::min(compute + waits, kBar));
  const size_t used = std::min(compute + waits + copies, kBar);
  const std::string bar = painted(std::string(compute, '#'), Paint::kGreen, screen) +
                          painted(std::string(waits, '='), Paint::kYellow, screen) +
                          painted(std::string(copies, '+'), Paint::kCyan, screen) +
                          painted(std::string(kBar - used, '.'), Paint::kQuiet, screen);
  const int64_t cycle = device.per_step(times.window_ns);
  const auto percent = [&](int64_t ns) { return 100 * device.share(ns); };
  return fmt::format("  {:>5}  {:>9}  {}  {:>6.0f} %  {:>4.0f} %  {:>4.0f} %  {:>4.0f} %   {}\n",
                     device.rank.value, duration_text(cycle), bar, percent(times.compute_ns),
                     percent(times.exposed_communication_ns), percent(times.exposed_memory_ns),
                     percent(times.idle_ns), main_cause_text(device));
}

// Culprits and the idlest first, then by rank again.
std::vector<const DeviceProfile*> shown(const Profile& profile, const Finding& finding) {
  std::vector<const DeviceProfile*> devices;
  for (const DeviceProfile& device : profile.devices) {
    devices.push_back(&device);
  }
  if (devices.size() > kMostRows) {
    const bool some = finding.culprits.size() < profile.devices.size();
    std::stable_sort(devices.begin(), devices.end(), [&](const auto* a, const auto* b) {
      const bool first = some && contains(finding.culprits, a->rank);
      const bool second = some && contains(finding.culprits, b->rank);
      return first != second ? first : a->share(a->times.idle_ns) > b->share(b->times.idle_ns);
    });
    devices.resize(kMostRows);
    std::stable_sort(devices.begin(), devices.end(),
                     [](const auto* a, const auto* b) { return a->rank < b->rank; });
  }
  return devices;
}

// Where it would be seen that the table leaves it out.
std::string start_up_text(const Profile& profile) {
  const auto longest = std::max_element(profile.devices.begin(), profile.devices.end(),
                                        [](const DeviceProfile& a, const DeviceProfile& b) {
                                          return a.start_up_ns() < b.start_up_ns();
                                        });
  return longest->share_of_whole(longest->start_up_ns()) < kWarnShare
             ? ""
             : fmt::format("  without start-up: {}{} before the first step\n",
                           profile.devices.size() == 1 ? "" : "up to ",
                           duration_text(longest->start_up_ns()));
}

}  // namespace

std::string rank_bars(const Run& run, const Finding& finding, const Screen& screen) {
  if (run.profile == nullptr || run.profile->devices.empty() ||
      !finding.code.starts_with("latency.")) {
    return "";
  }
  const Profile& profile = *run.profile;
  const bool steps = std::any_of(profile.devices.begin(), profile.devices.end(),
                                 [](const DeviceProfile& device) { return device.steps > 1; });
  std::string out =
      fmt::format("  {:>5}  {:>9}  {:<{}}  compute   comm   copy   idle   mostly\n", "rank",
                  steps ? "step" : "window", "#:compute =:comm +:copy .:idle", kBar);
  const std::vector<const DeviceProfile*> devices = shown(profile, finding);
  for (const DeviceProfile* device : devices) {
    out += row_of(*device, screen);
  }
  if (devices.size() < profile.devices.size()) {
    out += fmt::format("  .. and {} GPUs more: traintrace report --by=rank\n",
                       profile.devices.size() - devices.size());
  }
  return out + start_up_text(profile) + '\n';
}

}  // namespace traintrace
