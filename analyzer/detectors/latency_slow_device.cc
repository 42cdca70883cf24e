// A rank whose GPU takes longer for the same kernels than those of the others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <set>

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

using PerMille = std::vector<int64_t>;  // ratios to the median of the devices
constexpr double kSlower = 1000 * kSlowDeviceSlower;

struct Slow {
  const DeviceProfile* device;
  // Of files that may say anything, so not integers, which overflow.
  double lost_ns = 0;
  double compared_ns = 0;
  std::vector<double> lost_in{};  // the same by part_of_window
  std::vector<double> compared_in{};
  std::vector<PerMille> ratios_in{};  // the same, of all runs
  double known_ns = 0;                // in kernels that all ran equally often
  double alike_ns = 0;       // in others that take longer as well than with the same grid elsewhere
  double alike_lost_ns = 0;  // of these, where they ran alone
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

// With another grid, or as often as it likes, a kernel does other work.
bool is_equally_often(const Kernels::key_type& key, const std::vector<Kernels>& kernels) {
  const auto first = kernels.front().find(key);
  return key.second != 0 && first != kernels.front().end() &&
         std::all_of(kernels.begin(), kernels.end(), [&](const Kernels& each) {
           const auto found = each.find(key);
           return found != each.end() && found->second.size() == first->second.size();
         });
}

bool is_slower(PerMille per_mille) {
  return static_cast<double>(upper_median(std::move(per_mille))) >= kSlower;
}

// One kernel on one device.  `usual`: the median of the devices, for each run.
//
// Only runs with nothing beside them on this device count.  What ran beside the kernels of others
// can only have made those slower, so it need not be asked for: on fast devices there is hardly a
// kernel without a collective beside it that waits for the slow one.
//
// When a kernel runs alone may depend on how late its device is, and so on how long its kernels
// take: a device on which the data are sometimes larger runs alone just then.  So these runs have
// to be from half of the window's parts, and all runs together have to be slower too.
void compare(const std::deque<Sample>& samples, const std::vector<int64_t>& usual, Slow& slow) {
  Slow sums = {slow.device};
  sums.lost_in.resize(slow.lost_in.size());
  sums.compared_in.resize(slow.compared_in.size());
  PerMille of_all;
  PerMille of_alone;
  std::set<size_t> parts;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = samples[i];
    slow.known_ns += static_cast<double>(sample.ns);
    if (usual[i] <= 0) {
      continue;
    }
    const double ratio = static_cast<double>(sample.ns) / static_cast<double>(usual[i]);
    of_all.push_back(static_cast<int64_t>(1000 * std::min(ratio, 1000.0)));
    slow.ratios_in[sample.part].push_back(of_all.back());
    if (!sample.alone) {
      continue;
    }
    of_alone.push_back(of_all.back());
    parts.insert(sample.part);
    sums.lost_in[sample.part] += static_cast<double>(sample.ns) - static_cast<double>(usual[i]);
    sums.compared_in[sample.part] += static_cast<double>(sample.ns);
  }
  if (of_alone.size() < kSlowDeviceSamples || 2 * parts.size() < slow.lost_in.size()) {
    return;
  }
  for (size_t part = 0; part < slow.lost_in.size(); ++part) {
    slow.lost_ns += sums.lost_in[part];
    slow.lost_in[part] += sums.lost_in[part];
    slow.compared_ns += sums.compared_in[part];
    slow.compared_in[part] += sums.compared_in[part];
  }
  slow.all_slower =
      slow.all_slower && is_slower(std::move(of_alone)) && is_slower(std::move(of_all));
  ++slow.kernels;
}

// The same kernel, equally often on all devices.
void compare(const std::vector<const std::deque<Sample>*>& all, std::vector<Slow>& slow) {
  std::vector<int64_t> usual;
  for (size_t i = 0; i < all.front()->size(); ++i) {
    std::vector<int64_t> times;
    times.reserve(all.size());
    for (const std::deque<Sample>* samples : all) {
      times.push_back((*samples)[i].ns);
    }
    usual.push_back(upper_median(std::move(times)));
  }
  for (size_t member = 0; member < all.size(); ++member) {
    compare(*all[member], usual, slow[member]);
  }
}

int64_t median_time(const std::deque<Sample>& samples) {
  std::vector<int64_t> times;
  times.reserve(samples.size());
  for (const Sample& sample : samples) {
    times.push_back(sample.ns);
  }
  return upper_median(std::move(times));
}

// Kernels whose grid varies with the data, as those of experts: how often each grid comes differs,
// and the n-th runs are not comparable.  A slow device takes longer for each grid than most others
// do; one that only has more work takes other grids.  They add to what is known, not to the proof.
void add_alike(const std::vector<Kernels>& kernels, std::vector<Slow>& slow) {
  std::map<Kernels::key_type, std::vector<std::pair<size_t, int64_t>>> medians;
  for (size_t member = 0; member < kernels.size(); ++member) {
    for (const auto& [key, samples] : kernels[member]) {
      medians[key].emplace_back(member, median_time(samples));
    }
  }
  for (const auto& [key, of_members] : medians) {
    const bool most =
        of_members.size() >= kSlowDeviceRanks && 2 * of_members.size() > kernels.size();
    if (key.second == 0 || !most || is_equally_often(key, kernels)) {
      continue;
    }
    for (const auto& [member, ns] : of_members) {
      std::vector<int64_t> others;
      for (const auto& [other, time] : of_members) {
        if (other != member) {
          others.push_back(time);
        }
      }
      const auto usual = static_cast<double>(upper_median(std::move(others)));
      const auto median = static_cast<double>(ns);
      if (median < kSlowDeviceSlower * usual) {
        continue;
      }
      for (const Sample& sample : kernels[member].at(key)) {
        const auto time = static_cast<double>(sample.ns);
        slow[member].alike_ns += time;
        slow[member].alike_lost_ns += sample.alone ? time * (1 - usual / median) : 0;
      }
    }
  }
}

std::vector<Slow> compared(const Profile& profile) {
  std::vector<Slow> slow;
  std::vector<Kernels> kernels;
  for (const DeviceProfile& device : profile.devices) {
    slow.push_back({&device});
    slow.back().lost_in.resize(std::max<size_t>(1, device.stretches.size()));
    slow.back().compared_in.resize(slow.back().lost_in.size());
    slow.back().ratios_in.resize(slow.back().lost_in.size());
    kernels.push_back(kernels_of(profile, device));
  }
  for (const auto& [key, ignored] : kernels.front()) {
    if (is_equally_often(key, kernels)) {
      std::vector<const std::deque<Sample>*> all;
      all.reserve(kernels.size());
      for (const Kernels& each : kernels) {
        all.push_back(&each.at(key));
      }
      compare(all, slow);
    }
  }
  add_alike(kernels, slow);
  return slow;
}

double all_lost_ns(const Slow& slow) {
  return slow.lost_ns + slow.alike_lost_ns;
}

int64_t whole(double ns) {
  constexpr double kMost = 9e18;
  return static_cast<int64_t>(std::llround(std::clamp(ns, -kMost, kMost)));
}

// By part of the window, where it has any.
PerMille ratio_by_part(const Slow& slow) {
  PerMille medians;
  for (const PerMille& ratios : slow.ratios_in) {
    if (!ratios.empty()) {
      medians.push_back(upper_median(ratios));
    }
  }
  return medians;
}

int64_t largest_deviation(const PerMille& per_mille) {
  int64_t largest = 0;
  for (const int64_t each : per_mille) {
    largest = std::max(largest, std::abs(each - 1000));
  }
  return largest;
}

// Kernels of the same grid take longer for some data than for others.  A device whose batches come
// out longer by chance is faster in other steps, or the other devices differ by as much in some.
bool is_by_data(const std::vector<PerMille>& by_part, size_t device) {
  const PerMille& own = by_part[device];
  const bool ever_faster = std::any_of(own.begin(), own.end(), [](int64_t each) {
    return static_cast<double>(each) * kSlower <= 1e6;
  });
  std::vector<int64_t> others;
  for (size_t other = 0; other < by_part.size(); ++other) {
    if (other != device) {
      others.push_back(largest_deviation(by_part[other]));
    }
  }
  return ever_faster || upper_median(own) - 1000 < upper_median(std::move(others));
}

bool is_slow(const Slow& slow) {
  const TimePartition& times = slow.device->times;
  return slow.kernels >= kSlowDeviceKernels && slow.all_slower &&
         slow.known_ns + slow.alike_ns >=
             kSlowDeviceSameWork * static_cast<double>(times.compute_ns) &&
         slow.device->share(whole(all_lost_ns(slow))) >= kWarnShare;
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
  std::vector<PerMille> by_part;
  by_part.reserve(slow.size());
  for (const Slow& each : slow) {
    by_part.push_back(ratio_by_part(each));
  }
  std::erase_if(slow, [&](const Slow& each) {
    return !is_slow(each) || is_by_data(by_part, each.device->index);
  });
  if (slow.empty() || 2 * slow.size() >= profile.devices.size()) {
    return {};
  }
  std::stable_sort(slow.begin(), slow.end(),
                   [](const Slow& a, const Slow& b) { return all_lost_ns(a) > all_lost_ns(b); });
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
        "rank {}: compared where nothing ran beside its kernel, {} of {} of computing; the rest is "
        "likely to be slower by as much. What ran beside the others' kernels can only have slowed "
        "those",
        each.device->rank.value, ms_text(whole(each.compared_ns)),
        ms_text(each.device->times.compute_ns)));
    if (each.alike_lost_ns > 0) {
      finding.evidence.push_back(
          fmt::format("rank {}: {} more lost in kernels whose grids vary, which take longer for "
                      "the same grid too",
                      each.device->rank.value, ms_text(whole(each.alike_lost_ns))));
    }
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
      share_text(*worst.device, whole(all_lost_ns(worst))));
  finding.values = {{"slower_ns", whole(all_lost_ns(worst))},
                    {"time_percent", static_cast<int64_t>(std::llround(percent(worst)))},
                    {"kernel_count", static_cast<int64_t>(worst.kernels)}};
  finding.advice =
      "look at clocks, power, temperature and throttling of these GPUs (nvidia-smi -q), and "
      "whether another process uses them";
  return {finding};
}

}  // namespace traintrace
