#include "analyzer/timeline/collectives/gpu_lateness.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/chance.h"
#include "analyzer/timeline/collectives/own_work.h"
#include "analyzer/timeline/median.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

// Beyond the usual, since the collective before of which it is known who came late.
std::vector<int64_t> more_work_at(const Arrivals& arrivals, size_t index) {
  std::vector<int64_t> worked(arrivals.members.size(), 0);
  for (size_t between = known_before(arrivals, index) + 1; between <= index; ++between) {
    for (size_t i = 0; i < worked.size(); ++i) {
      worked[i] = added_within(worked[i], arrivals.list[between].worked_ns[i]);
    }
  }
  const int64_t usual = median_or_lesser(worked);
  for (int64_t& each : worked) {
    each -= usual;
  }
  return worked;
}

struct KernelRuns {
  int64_t count = 0;
  int64_t ns = 0;
};
using RunsByKernel = std::map<std::pair<std::string_view, uint16_t>, KernelRuns>;

// Where some members recorded more than others: what was launched between the first and the last
// collective that all have.
std::vector<bool> compared_work(const Timeline& timeline, const Arrivals& arrivals, size_t member) {
  std::vector<bool> compared(timeline.work.size(), true);
  if (!arrivals.cut) {
    return compared;
  }
  const std::vector<int64_t> launches = launch_times(timeline, launches_of(timeline));
  const auto place_of = [&](size_t index) {
    return LaunchPlace{launches[index], timeline.work[index].start_ns};
  };
  LaunchPlace from = {};
  LaunchPlace until = {};
  for (size_t i = 0; i < timeline.work.size(); ++i) {
    if (timeline.work[i].correlation == arrivals.list.front().correlation[member]) {
      from = place_of(i);
    }
    if (timeline.work[i].correlation == arrivals.list.back().correlation[member]) {
      until = place_of(i);
    }
  }
  for (size_t i = 0; i < timeline.work.size(); ++i) {
    compared[i] = from < place_of(i) && place_of(i) < until;
  }
  return compared;
}

RunsByKernel runs_of(const Timeline& timeline, const std::vector<bool>& compared,
                     int64_t& copies_ns) {
  std::map<std::pair<uint32_t, uint16_t>, KernelRuns> by_index;
  for (size_t i = 0; i < timeline.work.size(); ++i) {
    const GpuWork& work = timeline.work[i];
    if (!compared[i]) {
      continue;
    }
    const int64_t ns = work.end_ns - work.start_ns;
    if (work.kind == WorkKind::kCompute) {
      KernelRuns& runs = by_index[{work.name, work.shape}];
      ++runs.count;
      runs.ns = added_within(runs.ns, ns);
    } else if (work.kind == WorkKind::kMemory) {
      copies_ns = added_within(copies_ns, ns);
    }
  }
  RunsByKernel runs;
  for (const auto& [key, each] : by_index) {
    KernelRuns& sum = runs[{timeline.names[key.first], key.second}];
    sum.count += each.count;
    sum.ns = added_within(sum.ns, each.ns);
  }
  return runs;
}

// A GPU that takes longer for the same kernels with the same grids needs as much longer for those
// whose grids vary with the data, and has no more of them for that.
double usual_slowness(const WorkDifference& difference) {
  const bool is_known = difference.knows_grids && difference.same_kernels >= kSlowDeviceSamples;
  return is_known ? 1 + std::max(0.0, difference.longer()) : 1;
}

int64_t scaled(int64_t ns, double by) {
  constexpr double kMost = 1e18;
  return static_cast<int64_t>(std::min(static_cast<double>(ns) * by, kMost));
}

}  // namespace

// Where a collective is hidden behind computing it does not bring the ranks level again: what a GPU
// is behind by stays until it has less to do than the others.
std::vector<GpuCharges> gpu_charges(const Arrivals& arrivals) {
  std::vector<GpuCharges> all(arrivals.list.size());
  std::vector<int64_t> behind(arrivals.members.size(), 0);
  for (size_t index = 1; index < arrivals.list.size(); ++index) {
    if (!arrivals.list[index].is_known()) {
      continue;
    }
    const std::vector<int64_t>& starts = arrivals.list[index].start_ns;
    const int64_t usual_start = median_or_lesser(starts);
    const std::vector<int64_t> by_host = lateness_at(arrivals, index);
    GpuCharges& charges = all[index];
    charges.more_ns = more_work_at(arrivals, index);
    for (size_t i = 0; i < starts.size(); ++i) {
      behind[i] = std::max<int64_t>(0, added_within(behind[i], charges.more_ns[i]));
      charges.charged_ns.push_back(
          std::min(behind[i], starts[i] - usual_start - std::max<int64_t>(0, by_host[i])));
      // A rank that is level with the others has caught up, whatever it had more to do before.
      behind[i] = std::min(behind[i], std::max<int64_t>(0, starts[i] - usual_start));
    }
  }
  return all;
}

GpuLatenesses gpu_lateness(const Arrivals& arrivals, size_t parts) {
  GpuLatenesses all;
  std::vector<size_t> known_in(parts, 0);
  std::vector<int64_t> delayed_in(parts, 0);  // in ns, by whom it may be
  std::vector<std::vector<int64_t>> late_in(arrivals.members.size(), delayed_in);
  all.members.resize(arrivals.members.size());
  for (size_t i = 0; i < all.members.size(); ++i) {
    all.members[i].member = i;
  }
  const std::vector<GpuCharges> charges = gpu_charges(arrivals);
  for (size_t index = 1; index < arrivals.list.size(); ++index) {
    const Arrival& arrival = arrivals.list[index];
    if (!arrival.is_known()) {
      continue;
    }
    ++all.known;
    const size_t part = (index - 1) * parts / (arrivals.list.size() - 1);
    ++known_in[part];
    const int64_t last = arrival.last_start();
    const int64_t delay = last - median_or_lesser(arrival.start_ns);
    delayed_in[part] = added_within(delayed_in[part], delay >= arrivals.noise_ns() ? delay : 0);
    for (GpuLateness& each : all.members) {
      const int64_t charged = charges[index].charged_ns[each.member];
      each.more_ns = added_within(each.more_ns, charges[index].more_ns[each.member]);
      if (delay >= arrivals.noise_ns() && arrival.start_ns[each.member] == last) {
        ++each.last;
        each.late_ns = added_within(each.late_ns, delay);
      }
      if (charged >= arrivals.noise_ns() &&
          static_cast<double>(charged) >= kLateAsLast * static_cast<double>(delay)) {
        ++each.times;
        late_in[each.member][part] =
            added_within(late_in[each.member][part], std::min(charged, delay));
        each.charged_ns = added_within(each.charged_ns, charged);
      }
    }
  }
  for (size_t part = 0; part < parts; ++part) {
    all.parts += known_in[part] != 0 ? 1 : 0;
    for (GpuLateness& each : all.members) {
      const int64_t late = late_in[each.member][part];
      each.parts += late > 0 && late >= delayed_in[part] - late ? 1 : 0;
    }
  }
  for (GpuLateness& each : all.members) {
    each.charged_ns = std::min(each.charged_ns, std::max<int64_t>(0, each.more_ns));
  }
  return all;
}

bool comes_often(const GpuLatenesses& all, const GpuLateness& late) {
  return late.parts >= kStragglerAgain &&
         static_cast<double>(late.parts) >= kStragglerHabit * static_cast<double>(all.parts);
}

bool is_gpu_habit(const GpuLatenesses& all, const GpuLateness& late, size_t candidates) {
  const double by_chance = 1.0 / static_cast<double>(candidates);
  return comes_often(all, late) && chance_of(late.parts, all.parts, by_chance) < kStragglerChance;
}

WorkDifference work_difference(const Profile& profile, const Arrivals& arrivals, size_t member) {
  std::vector<RunsByKernel> runs;
  std::vector<int64_t> copies(arrivals.members.size(), 0);
  std::map<std::pair<std::string_view, uint16_t>, int> kernels;
  for (size_t i = 0; i < arrivals.members.size(); ++i) {
    const Timeline& timeline = profile.timelines[arrivals.members[i]];
    runs.push_back(runs_of(timeline, compared_work(timeline, arrivals, i), copies[i]));
    for (const auto& [kernel, each] : runs.back()) {
      kernels[kernel] = 0;
    }
  }
  const auto without_it = [&](std::vector<int64_t> values) {
    values.erase(values.begin() + static_cast<ptrdiff_t>(member));
    return middle_median(std::move(values));
  };
  WorkDifference difference;
  std::vector<int64_t> other_ns(runs.size(),
                                0);  // in kernels that it runs more or less often, or never
  for (const auto& [kernel, ignored] : kernels) {
    std::vector<int64_t> counts;
    std::vector<int64_t> times;
    for (const RunsByKernel& each : runs) {
      const auto found = each.find(kernel);
      counts.push_back(found == each.end() ? 0 : found->second.count);
      times.push_back(found == each.end() ? 0 : found->second.ns);
    }
    const int64_t more = times[member] - without_it(times);
    const int64_t more_often = counts[member] - without_it(counts);
    if (more_often != 0 || counts[member] == 0) {  // also grids that came on some others only
      for (size_t i = 0; i < times.size(); ++i) {
        other_ns[i] = added_within(other_ns[i], times[i]);
      }
      difference.more_kernels += more_often;
      continue;
    }
    difference.longer_ns = added_within(difference.longer_ns, more);
    difference.same_ns = added_within(difference.same_ns, times[member] - more);
    difference.same_kernels += static_cast<size_t>(counts[member]);
    difference.knows_grids = difference.knows_grids && kernel.second != 0;
  }
  difference.more_ns = other_ns[member] - scaled(without_it(other_ns), usual_slowness(difference));
  difference.copies_ns = copies[member] - without_it(copies);
  return difference;
}

}  // namespace traintrace
