#include "analyzer/detectors/lost_time/gpu_straggler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

constexpr size_t kMostLastRanks = 3;
constexpr size_t kFewestAlike = 3;  // other ranks that show what is usual

bool costs_enough(const Arrivals& arrivals, const GpuLateness& late) {
  const int64_t span = arrivals.list.back().median_end() - arrivals.list.front().median_end();
  const double least = kWarnShare * static_cast<double>(span);
  return static_cast<double>(late.charged_ns) >= least &&
         static_cast<double>(late.more_ns) >= least;
}

bool is_proven_of_two(const WorkDifference& difference) {
  return is_slower_at_same_work(difference) && difference.knows_grids &&
         difference.same_kernels >= kSlowDeviceSamples &&
         1 + difference.longer() >= kSlowDeviceSlower;
}

// With as much for each launch at the end whose work was not recorded as for the others.
int64_t computed_ns(const Profile& profile, size_t timeline) {
  int64_t sum = 0;
  for (const DeviceProfile& device : profile.devices) {
    sum += device.timeline == timeline ? device.whole.compute_ns : 0;
  }
  const MissingWork& missing = profile.timelines[timeline].missing;
  if (missing.at_end == 0 || missing.at_end == missing.launches) {
    return sum;
  }
  constexpr double kMost = 1e18;  // of files that may say anything
  const double all = static_cast<double>(missing.launches) /
                     static_cast<double>(missing.launches - missing.at_end);
  return std::llround(std::min(all * static_cast<double>(sum), kMost));
}

// Of two, whether one has more to do or the other less is seen by all other ranks, where these are
// alike: none of them is half as far from their middle.  Stages of a pipeline are not.
bool stands_out_of_all(const Profile& profile, size_t timeline, int64_t charged_ns) {
  const bool has_stages =
      !profile.messages.empty() || std::any_of(profile.stages.begin(), profile.stages.end(),
                                               [](const auto& stage) { return stage.has_value(); });
  if (has_stages || profile.timelines.size() < kFewestAlike + 1) {
    return false;
  }
  std::vector<int64_t> others;
  for (size_t i = 0; i < profile.timelines.size(); ++i) {
    if (i != timeline) {
      others.push_back(computed_ns(profile, i));
    }
  }
  const int64_t usual = middle_median(others);
  const int64_t more = computed_ns(profile, timeline) - usual;
  return more >= charged_ns / 2 && std::all_of(others.begin(), others.end(), [&](int64_t other) {
           return std::abs(other - usual) < more / 2;
         });
}

// Stages of a pipeline have different work by design, and the last one to come is that of the
// schedule.
bool are_stages(const Profile& profile, const Arrivals& arrivals) {
  std::set<size_t> stages;
  for (const size_t member : arrivals.members) {
    if (member < profile.stages.size() && profile.stages[member]) {
      stages.insert(static_cast<size_t>(profile.stages[member]->stage));
    }
  }
  return stages.size() > 1;
}

size_t parts_of(const Profile& profile, const Arrivals& arrivals) {
  size_t steps = 0;
  for (const DeviceProfile& device : profile.devices) {
    const bool is_member = arrivals.member(device.timeline).has_value();
    steps = is_member && device.steps > 1 && (steps == 0 || device.steps < steps) ? device.steps
                                                                                  : steps;
  }
  return steps == 0 ? kStretches : steps;
}

struct LastArrivals {
  const Arrivals* arrivals;
  GpuLateness late;
  size_t known;
};

}  // namespace

std::vector<GpuStraggler> gpu_stragglers(const Profile& profile, const Arrivals& arrivals) {
  std::vector<GpuStraggler> stragglers;
  if (!arrivals.usable() || arrivals.by_host || arrivals.list.size() < 2 ||
      are_stages(profile, arrivals)) {
    return stragglers;
  }
  const GpuLatenesses all = gpu_lateness(arrivals, parts_of(profile, arrivals));
  for (const GpuLateness& late : all.members) {
    const bool is_of_all =
        arrivals.members.size() == 2 &&
        stands_out_of_all(profile, arrivals.members[late.member], late.charged_ns);
    const size_t candidates = is_of_all ? profile.timelines.size() : arrivals.members.size();
    if (!comes_often(all, late) || !costs_enough(arrivals, late)) {
      continue;
    }
    // Of two, one is last by chance as often as not, and few steps tell nothing; many runs of the
    // same kernels do.
    const WorkDifference difference = work_difference(profile, arrivals, late.member);
    const bool is_slower_of_two = arrivals.members.size() == 2 && is_proven_of_two(difference);
    const bool is_habit =
        is_gpu_habit(all, late, candidates) && (arrivals.members.size() > 2 || is_of_all);
    if (is_habit || is_slower_of_two) {
      stragglers.push_back({late, all.known, difference});
    }
  }
  return stragglers;
}

bool is_slower_at_same_work(const WorkDifference& difference) {
  return difference.longer_ns >= std::max(difference.more_ns, difference.copies_ns);
}

std::string work_text(const WorkDifference& difference) {
  if (is_slower_at_same_work(difference)) {
    return fmt::format(
        "the same kernels{} take {:.0f} % longer ({}): their data are larger, or the GPU is slower",
        difference.knows_grids ? " with the same grids" : ", whose grids were not all recorded,",
        100 * difference.longer(), ms_text(difference.longer_ns));
  }
  if (difference.copies_ns >= difference.more_ns) {
    return fmt::format("its copies take {} longer", ms_text(difference.copies_ns));
  }
  const std::string kernels =
      difference.more_kernels > 0
          ? fmt::format("{} kernels more than usual", difference.more_kernels)
          : "other kernels than usual";
  return fmt::format("it has more work: {} take {}", kernels, ms_text(difference.more_ns));
}

std::string cause_text(const WorkDifference& difference) {
  return is_slower_at_same_work(difference)           ? "its GPU takes longer for the same kernels"
         : difference.copies_ns >= difference.more_ns ? "the copies on its GPU take longer"
                                                      : "its GPU has more work";
}

void add_last_arrivals(const Profile& profile, Finding& finding) {
  std::vector<LastArrivals> lasts;
  for (const Arrivals& arrivals : profile.groups) {
    if (!arrivals.usable() || arrivals.by_host) {
      continue;
    }
    const GpuLatenesses all = gpu_lateness(arrivals);
    for (const GpuLateness& late : all.members) {
      if (late.last != 0) {
        lasts.push_back({&arrivals, late, all.known});
      }
    }
  }
  std::stable_sort(lasts.begin(), lasts.end(), [](const LastArrivals& a, const LastArrivals& b) {
    return a.late.late_ns > b.late.late_ns;
  });
  lasts.resize(std::min(lasts.size(), kMostLastRanks));
  for (const LastArrivals& each : lasts) {
    finding.evidence.push_back(fmt::format(
        "rank {} started last on the GPU in {} of {} collectives{}, {:.3f} ms after the {} on "
        "average",
        *profile.timelines[each.arrivals->members[each.late.member]].rank, each.late.last,
        each.known, group_text(profile, *each.arrivals),
        static_cast<double>(each.late.late_ns) / 1e6 / static_cast<double>(each.late.last),
        each.arrivals->members.size() == 2 ? "other" : "median"));
  }
  if (!lasts.empty()) {
    finding.evidence.emplace_back(
        "a rank may start last because others held it up before: latency.straggler names those "
        "whose own host or GPU took longer");
  }
}

}  // namespace traintrace
