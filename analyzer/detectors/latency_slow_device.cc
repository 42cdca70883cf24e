// A rank whose GPU takes longer for the same kernels than those of the others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

struct Sample {
  int64_t ns;
  bool alone;   // nothing else ran on the device meanwhile
  size_t part;  // part_of_window
};

using Kernels = std::map<std::pair<std::string, uint16_t>, std::deque<Sample>>;

struct Slow {
  const DeviceProfile* device;
  // Of files that may say anything, so not integers, which overflow.
  double lost_ns = 0;
  double compared_ns = 0;
  std::vector<double> lost_in{};  // the same by part_of_window
  std::vector<double> compared_in{};
  double known_ns = 0;  // in kernels that all have
  size_t kernels = 0;
  bool all_slower = true;
};

Kernels kernels_of(const Profile& profile, const DeviceProfile& device) {
  const Timeline& timeline = profile.timelines[device.timeline];
  Kernels kernels;
  Sample* last = nullptr;  // of those so far, the one that ends last
  int64_t end = std::numeric_limits<int64_t>::min();
  for (const GpuWork& work : timeline.work) {
    if (work.device != device.device) {
      continue;
    }
    const bool alone = work.start_ns >= end;
    if (!alone && last != nullptr) {
      last->alone = false;
    }
    Sample* sample = nullptr;
    if (work.kind == WorkKind::kCompute) {
      std::deque<Sample>& samples = kernels[{timeline.names[work.name], work.shape}];
      samples.push_back(
          {work.end_ns - work.start_ns, alone, part_of_window(device, work.start_ns)});
      sample = &samples.back();
    }
    if (work.end_ns > end) {
      end = work.end_ns;
      last = sample;
    }
  }
  return kernels;
}

// The same kernel on all devices; where it was alone on all of them, each time is compared.
void compare(const std::vector<const std::deque<Sample>*>& all, std::vector<Slow>& slow) {
  std::vector<std::vector<int64_t>> per_mille(all.size());
  std::vector<Slow> sums = slow;
  for (Slow& each : sums) {
    each.lost_ns = each.compared_ns = 0;
    std::fill(each.lost_in.begin(), each.lost_in.end(), 0);
    std::fill(each.compared_in.begin(), each.compared_in.end(), 0);
  }
  for (size_t i = 0; i < all.front()->size(); ++i) {
    std::vector<int64_t> times;
    bool alone = true;
    for (size_t member = 0; member < all.size(); ++member) {
      const Sample& sample = (*all[member])[i];
      times.push_back(sample.ns);
      slow[member].known_ns += static_cast<double>(sample.ns);
      alone = alone && sample.alone;
    }
    const int64_t usual = upper_median(times);
    for (size_t member = 0; member < all.size() && alone && usual > 0; ++member) {
      const double ratio = static_cast<double>(times[member]) / static_cast<double>(usual);
      per_mille[member].push_back(static_cast<int64_t>(1000 * std::min(ratio, 1000.0)));
      const double lost = static_cast<double>(times[member]) - static_cast<double>(usual);
      const size_t part = (*all[member])[i].part;
      sums[member].lost_ns += lost;
      sums[member].lost_in[part] += lost;
      sums[member].compared_ns += static_cast<double>(times[member]);
      sums[member].compared_in[part] += static_cast<double>(times[member]);
    }
  }
  if (per_mille.front().size() < kSlowDeviceSamples) {
    return;
  }
  for (size_t member = 0; member < all.size(); ++member) {
    slow[member].lost_ns += sums[member].lost_ns;
    slow[member].compared_ns += sums[member].compared_ns;
    for (size_t part = 0; part < sums[member].lost_in.size(); ++part) {
      slow[member].lost_in[part] += sums[member].lost_in[part];
      slow[member].compared_in[part] += sums[member].compared_in[part];
    }
    slow[member].all_slower =
        slow[member].all_slower &&
        static_cast<double>(upper_median(std::move(per_mille[member]))) >= 1000 * kSlowDeviceSlower;
    ++slow[member].kernels;
  }
}

std::vector<Slow> compared(const Profile& profile) {
  std::vector<Slow> slow;
  std::vector<Kernels> kernels;
  for (const DeviceProfile& device : profile.devices) {
    slow.push_back({&device});
    slow.back().lost_in.resize(std::max<size_t>(1, device.stretches.size()));
    slow.back().compared_in.resize(slow.back().lost_in.size());
    kernels.push_back(kernels_of(profile, device));
  }
  for (const auto& [key, samples] : kernels.front()) {
    std::vector<const std::deque<Sample>*> all;
    for (const Kernels& each : kernels) {
      const auto found = each.find(key);
      if (found != each.end() && found->second.size() == samples.size()) {
        all.push_back(&found->second);
      }
    }
    // With another grid, or as often as it likes, a kernel does other work.
    if (all.size() == kernels.size() && key.second != 0) {
      compare(all, slow);
    }
  }
  return slow;
}

int64_t whole(double ns) {
  constexpr double kMost = 9e18;
  return static_cast<int64_t>(std::llround(std::clamp(ns, -kMost, kMost)));
}

bool is_slow(const Slow& slow) {
  const TimePartition& times = slow.device->times;
  return slow.kernels >= kSlowDeviceKernels && slow.all_slower &&
         slow.known_ns >= kSlowDeviceSameWork * static_cast<double>(times.compute_ns) &&
         slow.device->share(whole(slow.lost_ns)) >= kWarnShare;
}

// Who meets it in collectives.
Ranks who_meets(const Profile& profile, const Ranks& slow) {
  Ranks victims;
  for (const Arrivals& arrivals : profile.groups) {
    Ranks members;
    for (const size_t member : arrivals.members) {
      insert(members, Rank{*profile.timelines[member].rank});
    }
    if (std::any_of(slow.begin(), slow.end(), [&](Rank rank) { return contains(members, rank); })) {
      for (const Rank rank : members) {
        if (!contains(slow, rank)) {
          insert(victims, rank);
        }
      }
    }
  }
  return victims;
}

}  // namespace

std::vector<Finding> find_slow_device(const Profile& profile) {
  if (profile.devices.size() < kSlowDeviceRanks) {
    return {};
  }
  std::vector<Slow> slow = compared(profile);
  std::erase_if(slow, [](const Slow& each) { return !is_slow(each); });
  if (slow.empty() || 2 * slow.size() >= profile.devices.size()) {
    return {};
  }
  std::stable_sort(slow.begin(), slow.end(),
                   [](const Slow& a, const Slow& b) { return a.lost_ns > b.lost_ns; });
  Finding finding;
  finding.code = "latency.slow-device";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.certainty = Certainty::kLikely;
  const auto percent = [](const Slow& each) {
    return 100 * each.compared_ns / (each.compared_ns - each.lost_ns);
  };
  for (const Slow& each : slow) {
    insert(finding.culprits, each.device->rank);
    finding.evidence.push_back(fmt::format(
        "rank {}: each of {} kernels takes longer with the same grid and nothing beside it, {:.0f} "
        "% of the usual together; {:.1f} us from launch to start",
        each.device->rank.value, each.kernels, percent(each),
        static_cast<double>(each.device->median_lead_ns) / 1e3));
    finding.evidence.push_back(fmt::format(
        "rank {}: compared where nothing ran beside a kernel on any rank, {} of {} of computing; "
        "the rest is likely to be slower by as much",
        each.device->rank.value, ms_text(whole(each.compared_ns)),
        ms_text(each.device->times.compute_ns)));
    for (size_t part = 0; part < each.lost_in.size(); ++part) {
      const double share = each.compared_in[part] == 0
                               ? 100 / percent(each)
                               : 1 - each.lost_in[part] / each.compared_in[part];
      finding.slower.push_back({each.device->index, part, share});
    }
  }
  finding.victims = who_meets(profile, finding.culprits);
  const Slow& worst = slow.front();
  finding.title = fmt::format(
      "the GPU{} of {} take{} longer for the same kernels than those of "
      "the others: {} lost in kernels that ran alone",
      slow.size() == 1 ? "" : "s", ranks_text(finding.culprits), slow.size() == 1 ? "s" : "",
      share_text(*worst.device, whole(worst.lost_ns)));
  finding.values = {{"slower_ns", whole(worst.lost_ns)},
                    {"time_percent", static_cast<int64_t>(std::llround(percent(worst)))},
                    {"kernel_count", static_cast<int64_t>(worst.kernels)}};
  finding.advice =
      "look at clocks, power, temperature and throttling of these GPUs (nvidia-smi -q), and "
      "whether another process uses them";
  return {finding};
}

}  // namespace traintrace
