#include "analyzer/timeline/profile.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>

#include "analyzer/timeline/blocking.h"
#include "analyzer/timeline/exposed_copies.h"
#include "analyzer/timeline/host_times.h"
#include "analyzer/timeline/missing_work.h"
#include "analyzer/timeline/rank_evidence.h"
#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

// So high that nobody takes it for a rank of the job.
constexpr int kFirstOfNobody = 1000;

int first_of_nobody(const std::vector<Timeline>& timelines) {
  int ranks = 0;
  for (const Timeline& timeline : timelines) {
    ranks = std::max({ranks, timeline.world_size.value_or(0), timeline.rank.value_or(-1) + 1});
  }
  int first = kFirstOfNobody;
  while (first < ranks) {
    first *= 10;
  }
  return first;
}

// A process that moves no data between ranks is the only one of its job, where it says no rank.
void give_ranks(std::vector<Timeline>& timelines) {
  std::stable_sort(timelines.begin(), timelines.end(), [](const Timeline& a, const Timeline& b) {
    return std::tuple(!a.rank, a.rank, a.source) < std::tuple(!b.rank, b.rank, b.source);
  });
  int next = first_of_nobody(timelines);
  int free = 0;
  for (Timeline& timeline : timelines) {
    if (timeline.rank) {
      free = std::max(free, *timeline.rank + 1);
    } else if (moves_between_ranks(timeline)) {
      timeline.rank = next++;
      timeline.rank_from = RankSource::kNobody;
    } else {
      timeline.rank = free++;
    }
  }
  std::stable_sort(timelines.begin(), timelines.end(),
                   [](const Timeline& a, const Timeline& b) { return a.rank < b.rank; });
}

// Where the host made a call, in Timeline::names.
struct NamedCall {
  uint32_t name = kNoName;
  uint32_t site = kNoName;  // of Python code; else
  uint32_t op = kNoName;    // the operator; else, where it launches
  uint32_t kernel = kNoName;
  bool spent_in_site = false;

  auto operator<=>(const NamedCall&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Null: the call is not known.
NamedCall named_call(const Timeline& timeline, const HostCall* call) {
  if (call == nullptr) {
    return {};
  }
  return {call->name, call->site, call->site == kNoName ? timeline.context_of(*call).op : kNoName};
}

// Of late launches, the frame in which the host spent the time says more than the one that launched
// in the end; and what is launched more than nothing.
NamedCall named_call(const Timeline& timeline, const IdleCharge& charge) {
  NamedCall named = named_call(timeline, charge.call);
  if (charge.spent_in != kNoName) {
    return {named.name, charge.spent_in, kNoName, kNoName, true};
  }
  if (is_launch(charge.cause) && named.site == kNoName && named.op == kNoName &&
      !timeline.by_host) {
    named.kernel = charge.next->name;
  }
  return named;
}

std::string text_of(const Timeline& timeline, uint32_t name) {
  return name == kNoName ? "" : timeline.names[name];
}

void put_call(const Timeline& timeline, const NamedCall& call, IdleSite& site) {
  site.call = text_of(timeline, call.name);
  site.site = text_of(timeline, call.site);
  site.op = text_of(timeline, call.op);
  site.kernel = text_of(timeline, call.kernel);
  site.spent_in_site = call.spent_in_site;
}

// While that part of the window lasts, which is cut nowhere else.
std::vector<IdleSite> sites_of(const Timeline& timeline, std::span<const GpuWork> work,
                               const Span& part) {
  std::map<std::pair<IdleCause, NamedCall>, IdleSite> sites;
  const auto add = [&](const IdleCharge& charge) {
    if (charge.begin_ns < part.begin_ns || charge.begin_ns >= part.end_ns) {
      return;
    }
    IdleSite& site = sites[{charge.cause, named_call(timeline, charge)}];
    site.cause = charge.cause;
    site.ns += charge.ns;
    if (!site.gaps.empty() && site.gaps.back().until_ns == charge.next->start_ns) {
      site.gaps.back().ns += charge.ns;
    } else {
      site.gaps.push_back({charge.ns, charge.next->start_ns});
    }
  };
  visit_idle(timeline, work, add, std::array{part.begin_ns, part.end_ns});
  std::vector<IdleSite> result;
  for (auto& [key, site] : sites) {
    put_call(timeline, key.second, site);
    result.push_back(std::move(site));
  }
  std::sort(result.begin(), result.end(), [](const IdleSite& a, const IdleSite& b) {
    return std::tie(b.ns, a.cause, a.call, a.site, a.op, a.kernel) <
           std::tie(a.ns, b.cause, b.call, b.site, b.op, b.kernel);
  });
  return result;
}

// Copies and sets with nothing else beside them, by kind and place.
std::vector<IdleSite> copies_of(const Timeline& timeline, std::span<const GpuWork> work) {
  std::unordered_map<uint64_t, const HostCall*> launches;
  for (const HostCall& call : timeline.calls) {
    launches.try_emplace(call.correlation, &call);
  }
  launches.erase(0);
  std::map<std::pair<uint32_t, NamedCall>, IdleSite> sites;  // by kind of copy
  for (const ExposedCopy& copy : exposed_copies(work)) {
    const auto found = launches.find(copy.work->correlation);
    const HostCall* const call = found == launches.end() ? nullptr : found->second;
    IdleSite& site = sites[{copy.work->name, named_call(timeline, call)}];
    site.ns += copy.ns;
    site.gaps.push_back({copy.ns, copy.work->end_ns});
  }
  std::vector<IdleSite> result;
  for (auto& [key, site] : sites) {
    site.copy = timeline.names[key.first];
    put_call(timeline, key.second, site);
    result.push_back(std::move(site));
  }
  std::sort(result.begin(), result.end(), [](const IdleSite& a, const IdleSite& b) {
    return std::tie(b.ns, a.copy, a.call, a.site, a.op) <
           std::tie(a.ns, b.copy, b.call, b.site, b.op);
  });
  return result;
}

// While the loop lasted and any thread was in such a call for that device.
int64_t blocked_for(const Timeline& timeline, const DeviceProfile& device) {
  std::vector<Span> blocked;
  for (const HostCall& call : timeline.calls) {
    if (call.kind == HostCallKind::kBlocking && (call.device < 0 || call.device == device.device)) {
      blocked.push_back({call.start_ns, call.end_ns});
    }
  }
  return common_ns(united(std::move(blocked)), {device.loop});
}

// Where parts with as many kernels each begin: a cluster of gaps between few of them lies in few
// parts, however long it takes, and so do the copies of weights that are loaded or saved once.
std::vector<int64_t> equal_parts_of(std::span<const GpuWork> work) {
  std::vector<int64_t> kernels;
  for (const GpuWork& each : work) {
    if (each.kind != WorkKind::kMemory) {
      kernels.push_back(each.start_ns);
    }
  }
  std::vector<int64_t> starts;
  if (!work.empty()) {
    starts.push_back(work.front().start_ns);
  }
  for (size_t part = 1; part < kStretches && !kernels.empty(); ++part) {
    starts.push_back(std::max(starts.back(), kernels[kernels.size() * part / kStretches]));
  }
  return starts;
}

// Of a rank, by group and collective: those of known arrival but a group's first, and how many were
// over when the loop began.
void add_waits(const Profile& profile, size_t index, DeviceProfile& device) {
  const Timeline& timeline = profile.timelines[index];
  std::unordered_map<uint64_t, int64_t> started;  // by kernel
  for (const GpuWork& work : timeline.work) {
    if (work.kind == WorkKind::kCommunication) {
      started.try_emplace(work.correlation, work.start_ns);
    }
  }
  device.collectives_before_loop.assign(profile.groups.size(), 0);
  for (size_t group = 0; group < profile.groups.size(); ++group) {
    const Arrivals& arrivals = profile.groups[group];
    const std::optional<size_t> member = arrivals.member(index);
    for (size_t i = 0; member && arrivals.usable() && i < arrivals.list.size(); ++i) {
      const Arrival& arrival = arrivals.list[i];
      const auto start = started.find(arrival.correlation[*member]);
      if (start == started.end()) {
        continue;
      }
      const int64_t wait_ns = arrival.wait_of(*member);
      if (start->second + wait_ns <= device.loop.begin_ns && device.loop_start_ns) {
        device.collectives_before_loop[group] = i + 1;
      } else if (i != 0 && arrival.is_known()) {
        device.waits.push_back({group, i, wait_ns, start->second});
      }
    }
  }
}

void add_recorded_steps(const Timeline& timeline, size_t marked, DeviceProfile& device) {
  device.recorded_steps = static_cast<double>(device.steps);
  if (timeline.missing.at_end != 0 && !timeline.step_starts.empty()) {
    device.recorded_steps = static_cast<double>(device.unmarked) + recorded_steps(timeline, marked);
  }
}

// By the host's calls alone no steps are known.  The longest pause before most of what was called,
// if none of the usual is nearly as long, is of a job that makes its model or prepares its first
// batch: what comes before it is start-up.  Launches are numbered by the calls before them.
void leave_out_start_up(std::vector<GpuWork>& work) {
  const uint64_t early = work.back().correlation / kStretches;
  std::vector<int64_t> gaps;
  int64_t longest = 0;
  size_t begins = 0;
  for (size_t i = 1; i < work.size(); ++i) {
    gaps.push_back(work[i].start_ns - work[i - 1].end_ns);
    if (work[i].correlation <= early && gaps.back() > longest) {
      longest = gaps.back();
      begins = i;
    }
  }
  if (begins != 0 && longest / kPauseTimes >= upper_median(std::move(gaps))) {
    work.erase(work.begin(), work.begin() + static_cast<ptrdiff_t>(begins));
  }
}

void add_steps(const Timeline& timeline, int number, DeviceProfile& device) {
  const std::vector<int64_t> marked = steps_on_device(timeline, number);
  device.step_starts = unmarked_steps(timeline, number, marked);
  device.unmarked = device.step_starts.size();
  device.step_starts.insert(device.step_starts.end(), marked.begin(), marked.end());
  device.steps = device.step_starts.size();
  add_recorded_steps(timeline, marked.size(), device);
  device.loop = device.window;
  if (!device.step_starts.empty()) {
    device.loop_start_ns = device.step_starts.front();
    if (*device.loop_start_ns < device.window.end_ns) {  // else no work is known to be of the loop
      device.loop.begin_ns = std::max(*device.loop_start_ns, device.window.begin_ns);
    }
  }
}

// And what was before the loop.
void add_whole(const Timeline& timeline, std::span<const GpuWork> work, DeviceProfile& device) {
  device.whole = partition_of(work);
  device.whole_idle = idle_by_cause(timeline, work);
  const Span before = {device.window.begin_ns, device.loop.begin_ns};
  if (before.begin_ns < before.end_ns) {
    device.start_up = sites_of(timeline, work, before);
    std::vector<IdleSite> copies = copies_of(timeline, work_within(work, before));
    std::move(copies.begin(), copies.end(), std::back_inserter(device.start_up));
    std::stable_sort(device.start_up.begin(), device.start_up.end(),
                     [](const IdleSite& a, const IdleSite& b) { return a.ns > b.ns; });
  }
}

// `work`: all of it, which says why the GPU was idle; `in_loop`: what of it lies in the loop.
void add_loop(const Timeline& timeline, std::span<const GpuWork> work,
              std::span<const GpuWork> in_loop, DeviceProfile& device) {
  device.times = partition_of(in_loop, device.loop);
  device.idle = idle_by_cause(timeline, work, std::array{device.loop.begin_ns}).front();
  device.sites = sites_of(timeline, work, device.loop);
  device.copies = copies_of(timeline, in_loop);
  const Spans profiling = within(united(timeline.profiling), device.loop);
  device.blocked_ns = blocked_for(timeline, device);
  if (const std::optional<Spans> blocking = blocking_communication(timeline, work)) {
    device.blocking_communication_ns = common_ns(*blocking, {device.loop});
  }
  device.profiling_ns = length_ns(profiling);
  device.profiling_idle_ns = idle_within(work, profiling);
  device.median_lead_ns = median_lead(
      timeline, in_loop, [](const GpuWork& each) { return each.kind != WorkKind::kMemory; });
  device.stretches = device.steps < 2 ? equal_parts_of(in_loop) : device.step_starts;
}

void add_devices(Profile& profile, size_t index) {
  const Timeline& timeline = profile.timelines[index];
  std::map<int, std::vector<GpuWork>> by_device;
  for (const GpuWork& work : timeline.work) {
    by_device[work.device].push_back(work);
  }
  for (auto& [number, work] : by_device) {
    if (timeline.by_host) {
      leave_out_start_up(work);
    }
  }
  for (const auto& [number, work] : by_device) {
    DeviceProfile device;
    device.rank = {*timeline.rank};
    device.device = number;
    device.index = profile.devices.size();
    device.timeline = index;
    device.by_host = timeline.by_host;
    device.window = window_of(work);
    add_steps(timeline, number, device);
    add_whole(timeline, work, device);
    if (device.loop == device.window) {
      add_loop(timeline, work, work, device);
    } else {
      add_loop(timeline, work, work_within(work, device.loop), device);
    }
    if (const std::optional<PipelineStage>& stage = profile.stages[index]) {
      device.pipeline_bubble_ns = bubble_ns(timeline, *stage, work_within(work, device.loop));
    }
    add_waits(profile, index, device);
    profile.devices.push_back(std::move(device));
  }
}

}  // namespace

size_t part_of_window(const DeviceProfile& device, int64_t time_ns) {
  const auto after = std::upper_bound(device.stretches.begin(), device.stretches.end(), time_ns);
  return static_cast<size_t>(std::max<ptrdiff_t>(1, after - device.stretches.begin())) - 1;
}

Profile build_profile(std::vector<Timeline> timelines) {
  Profile profile;
  give_ranks(timelines);
  profile.timelines = std::move(timelines);
  for (Timeline& timeline : profile.timelines) {
    timeline.missing = missing_work(timeline);
  }
  profile.groups = find_arrivals(profile.timelines);
  note_late_peers(profile.groups, profile.timelines);
  profile.stages = find_stages(profile.timelines);
  profile.messages = matched_messages(profile.timelines);
  for (size_t i = 0; i < profile.timelines.size(); ++i) {
    const Timeline& timeline = profile.timelines[i];
    const int least = timeline.rank_from == RankSource::kNobody ? 0 : *timeline.rank + 1;
    profile.world_size = std::max({profile.world_size, timeline.world_size.value_or(0), least});
    add_devices(profile, i);
  }
  profile.world_size = std::max(profile.world_size, static_cast<int>(profile.timelines.size()));
  return profile;
}

}  // namespace traintrace
