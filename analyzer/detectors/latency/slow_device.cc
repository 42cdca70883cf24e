// A rank whose GPU takes longer for the same kernels than those of the others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/lost_time/kernel_runs.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/collectives/peer_waits.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

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
  bool waiting_beside = false;  // some were compared beside communication that waited
};

struct DeviceRuns {
  KernelRuns kernels;
  size_t untold = 0;  // launches at the end of its timeline whose work was not recorded
};

// How often all devices are known to have run a kernel; what was not recorded at the end may be
// more of it.  None: with another grid, or as often as it likes, a kernel does other work.
std::optional<size_t> common_runs(const KernelRuns::key_type& key,
                                  const std::vector<DeviceRuns>& devices) {
  size_t fewest = std::numeric_limits<size_t>::max();
  size_t most = 0;
  size_t at_most = fewest;
  for (const DeviceRuns& device : devices) {
    const auto found = device.kernels.find(key);
    const size_t count = found == device.kernels.end() ? 0 : found->second.size();
    fewest = std::min(fewest, count);
    most = std::max(most, count);
    at_most = std::min(at_most, count + device.untold);
  }
  return key.second != 0 && fewest != 0 && most <= at_most ? std::optional(fewest) : std::nullopt;
}

using RunsOfAll = std::vector<const std::deque<KernelRun>*>;  // by device

// How long each run usually takes.
std::vector<int64_t> usual_ns(const RunsOfAll& all) {
  std::vector<int64_t> usual;
  std::vector<int64_t> times;
  for (size_t run = 0; run < all.front()->size(); ++run) {
    times.clear();
    for (const std::deque<KernelRun>* const samples : all) {
      times.push_back((*samples)[run].ns);
    }
    usual.push_back(upper_median(times));
  }
  return usual;
}

// And how long on other devices that had at least as many kernels that wait beside it, or whatever
// else; at least the usual, so that these kernels are no reason to take longer.  None: no other
// had.
std::optional<int64_t> usual_beside_ns(const RunsOfAll& all, size_t run, size_t device,
                                       int64_t usual) {
  const int beside = (*all[device])[run].beside;
  std::vector<int64_t> times;
  for (size_t other = 0; other < all.size(); ++other) {
    if (other != device && (*all[other])[run].beside >= beside) {
      times.push_back((*all[other])[run].ns);
    }
  }
  return times.empty() ? std::nullopt
                       : std::optional(std::max(usual, upper_median(std::move(times))));
}

// One kernel on one device.
//
// Only runs count with nothing beside them on this device that computes or moves data.  What ran
// beside the kernels of others, or how long, can only have made those slower, so it need not be
// asked for: on fast devices there is hardly a kernel without a collective beside it that waits for
// the slow one.  In pipelines there is hardly a kernel anywhere without a receive that waits for
// its sender: that takes a little of the GPU, and must be seen not to be the reason.
//
// When a kernel runs so may depend on how late its device is, and so on how long its kernels take:
// a device on which the data are sometimes larger runs alone just then.  So these runs have to be
// from half of the window's parts, and all runs together have to be slower too.
void compare(const RunsOfAll& all, const std::vector<int64_t>& usual, size_t device, Slow& slow) {
  const std::deque<KernelRun>& samples = *all[device];
  Slow sums = {slow.device};
  sums.lost_in.resize(slow.lost_in.size());
  sums.compared_in.resize(slow.compared_in.size());
  PerMille of_all;
  PerMille of_compared;
  std::set<size_t> parts;
  for (size_t i = 0; i < samples.size(); ++i) {
    const KernelRun& sample = samples[i];
    slow.known_ns += static_cast<double>(sample.ns);
    if (usual[i] <= 0) {
      continue;
    }
    of_all.push_back(per_mille(sample.ns, usual[i]));
    const std::optional<int64_t> alike = sample.beside == kDisturbed ? std::nullopt
                                         : sample.beside == 0
                                             ? std::optional(usual[i])
                                             : usual_beside_ns(all, i, device, usual[i]);
    if (!alike) {
      continue;
    }
    of_compared.push_back(per_mille(sample.ns, *alike));
    parts.insert(sample.part);
    sums.waiting_beside = sums.waiting_beside || sample.beside > 0;
    sums.lost_in[sample.part] += static_cast<double>(sample.ns) - static_cast<double>(*alike);
    sums.compared_in[sample.part] += static_cast<double>(sample.ns);
  }
  if (of_compared.size() < kSlowDeviceSamples || 2 * parts.size() < slow.lost_in.size()) {
    return;
  }
  for (size_t part = 0; part < slow.lost_in.size(); ++part) {
    slow.lost_ns += sums.lost_in[part];
    slow.lost_in[part] += sums.lost_in[part];
    slow.compared_ns += sums.compared_in[part];
    slow.compared_in[part] += sums.compared_in[part];
  }
  slow.waiting_beside = slow.waiting_beside || sums.waiting_beside;
  slow.all_slower =
      slow.all_slower && is_slower(std::move(of_compared)) && is_slower(std::move(of_all));
  ++slow.kernels;
}

// The same kernel, its first `count` runs on all devices.  Stages of a pipeline run their passes in
// orders of their own, and each has the same micro-batches: there the longest run belongs to the
// longest.
void compare(const RunsOfAll& all, size_t count, bool in_stages, std::vector<Slow>& slow) {
  std::vector<std::deque<KernelRun>> runs;
  for (const std::deque<KernelRun>* const each : all) {
    runs.emplace_back(each->begin(), each->begin() + static_cast<ptrdiff_t>(count));
  }
  RunsOfAll compared;
  for (const std::deque<KernelRun>& each : runs) {
    compared.push_back(&each);
  }
  const std::vector<int64_t> by_turn = usual_ns(compared);
  for (size_t device = 0; device < all.size(); ++device) {
    for (size_t i = 0; i < all[device]->size(); ++i) {
      const KernelRun& sample = (*all[device])[i];
      if (i >= count) {
        slow[device].known_ns += static_cast<double>(sample.ns);
      } else if (by_turn[i] > 0) {
        slow[device].ratios_in[sample.part].push_back(per_mille(sample.ns, by_turn[i]));
      }
    }
  }
  for (std::deque<KernelRun>& each : runs) {
    if (in_stages) {
      std::stable_sort(each.begin(), each.end(),
                       [](const KernelRun& a, const KernelRun& b) { return a.ns < b.ns; });
    }
  }
  const std::vector<int64_t> usual = in_stages ? usual_ns(compared) : by_turn;
  for (size_t device = 0; device < all.size(); ++device) {
    compare(compared, usual, device, slow[device]);
  }
}

int64_t median_time(const std::deque<KernelRun>& samples) {
  std::vector<int64_t> times;
  times.reserve(samples.size());
  for (const KernelRun& sample : samples) {
    times.push_back(sample.ns);
  }
  return upper_median(std::move(times));
}

// Kernels whose grid varies with the data, as those of experts: how often each grid comes
// differs, and the n-th runs are not comparable.  A slow device takes longer for each grid than
// most others do; one that only has more work takes other grids.  They add to what is known, not to
// the proof.
void add_alike(const std::vector<DeviceRuns>& devices, std::vector<Slow>& slow) {
  std::map<KernelRuns::key_type, std::vector<std::pair<size_t, int64_t>>> medians;
  for (size_t member = 0; member < devices.size(); ++member) {
    for (const auto& [key, samples] : devices[member].kernels) {
      medians[key].emplace_back(member, median_time(samples));
    }
  }
  for (const auto& [key, of_members] : medians) {
    const bool most =
        of_members.size() >= kSlowDeviceRanks && 2 * of_members.size() > devices.size();
    if (key.second == 0 || !most || common_runs(key, devices)) {
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
      for (const KernelRun& sample : devices[member].kernels.at(key)) {
        const auto time = static_cast<double>(sample.ns);
        slow[member].alike_ns += time;
        slow[member].alike_lost_ns += sample.beside == 0 ? time * (1 - usual / median) : 0;
      }
    }
  }
}

std::vector<Slow> compared(const Profile& profile) {
  std::vector<Slow> slow;
  std::vector<DeviceRuns> devices;
  const std::vector<std::vector<int64_t>> waited = waited_until(profile);
  for (const DeviceProfile& device : profile.devices) {
    slow.push_back({&device});
    slow.back().lost_in.resize(std::max<size_t>(1, device.stretches.size()));
    slow.back().compared_in.resize(slow.back().lost_in.size());
    slow.back().ratios_in.resize(slow.back().lost_in.size());
    devices.push_back({kernel_runs(profile, device, waited[device.timeline]),
                       profile.timelines[device.timeline].missing.at_end});
  }
  for (const auto& [key, ignored] : devices.front().kernels) {
    if (const std::optional<size_t> count = common_runs(key, devices)) {
      RunsOfAll all;
      all.reserve(devices.size());
      for (const DeviceRuns& each : devices) {
        all.push_back(&each.kernels.at(key));
      }
      compare(all, *count, !profile.messages.empty(), slow);
    }
  }
  add_alike(devices, slow);
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

// Kernels of the same grid take longer for some data than for others.  A device whose batches
// come out longer by chance is faster in other steps, or the other devices differ by as much in
// some.
bool is_by_data(const std::vector<PerMille>& by_part, size_t device) {
  const PerMille& own = by_part[device];
  const bool ever_faster = std::any_of(own.begin(), own.end(), [](int64_t each) {
    return static_cast<double>(each) * kSlowDeviceSlower <= 1000;
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
  return slow.kernels >= kSlowDeviceKernels && slow.all_slower &&
         slow.known_ns + slow.alike_ns >=
             kSlowDeviceSameWork * static_cast<double>(slow.device->whole.compute_ns) &&
         slow.device->share(whole(all_lost_ns(slow))) >= kWarnShare;
}

// Sets of timelines that wait for each other again and again: in the collectives of a group, or by
// messages.  What ranks did before a group's first collective is not known, so nobody is known to
// have waited in that.
std::vector<std::vector<size_t>> meetings_of(const Profile& profile) {
  std::vector<std::vector<size_t>> meetings;
  for (const Arrivals& arrivals : profile.groups) {
    if (arrivals.list.size() >= 2) {
      meetings.push_back(arrivals.members);
    }
  }
  std::set<std::pair<size_t, size_t>> pairs;
  for (const MatchedMessage& message : profile.messages) {
    pairs.insert(std::minmax(message.send.timeline, message.receive.timeline));
  }
  for (const auto& [one, other] : pairs) {
    meetings.push_back({one, other});
  }
  return meetings;
}

// Who waits for one of these, or for somebody who waits for one.
Ranks who_waits_for(const Profile& profile, const Ranks& slow) {
  const std::vector<std::vector<size_t>> meetings = meetings_of(profile);
  std::vector<std::vector<size_t>> of_timeline(profile.timelines.size());  // in meetings
  for (size_t i = 0; i < meetings.size(); ++i) {
    for (const size_t member : meetings[i]) {
      of_timeline[member].push_back(i);
    }
  }
  std::vector<size_t> reached;
  std::vector<bool> seen(profile.timelines.size(), false);
  std::vector<bool> joined(meetings.size(), false);
  const auto reach = [&](size_t timeline) {
    if (!seen[timeline]) {
      seen[timeline] = true;
      reached.push_back(timeline);
    }
  };
  for (size_t i = 0; i < profile.timelines.size(); ++i) {
    if (contains(slow, Rank{*profile.timelines[i].rank})) {
      reach(i);
    }
  }
  Ranks victims;
  for (size_t i = 0; i < reached.size(); ++i) {
    if (const Rank rank{*profile.timelines[reached[i]].rank}; !contains(slow, rank)) {
      insert(victims, rank);
    }
    for (const size_t meeting : of_timeline[reached[i]]) {
      if (!joined[meeting]) {
        joined[meeting] = true;
        std::for_each(meetings[meeting].begin(), meetings[meeting].end(), reach);
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
        "rank {}: each of {} kernels takes longer with the same grid and nothing beside it{}, "
        "{:.0f} % of the usual together; {:.1f} us from launch to start",
        each.device->rank.value, each.kernels,
        each.waiting_beside ? " but communication that waits, as on the others" : "", percent(each),
        static_cast<double>(each.device->median_lead_ns) / 1e3));
    finding.evidence.push_back(
        fmt::format("rank {}: compared where nothing else computed or moved data beside its "
                    "kernel, {} of {} of "
                    "computing; the rest is likely to be slower by as much. What ran beside the "
                    "others' kernels "
                    "can only have slowed those",
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
  finding.victims = who_waits_for(profile, finding.culprits);
  const Slow& worst = slow.front();
  finding.title = fmt::format(
      "the GPU{} of {} take{} longer for the same kernels than those of "
      "the others: {} lost in kernels that nothing disturbed",
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
