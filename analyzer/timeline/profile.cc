#include "analyzer/timeline/profile.h"
#include "analyzer/thresholds.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analyzer/timeline/blocking.h"
#include "analyzer/timeline/exposed_copies.h"
#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

void give_ranks(std::vector<Timeline>& timelines) {
  std::stable_sort(timelines.begin(), timelines.end(), [](const Timeline& a, const Timeline& b) {
    return std::tuple(!a.rank, a.rank, a.source) < std::tuple(!b.rank, b.rank, b.source);
  });
  std::set<int> taken;
  for (const Timeline& timeline : timelines) {
    if (timeline.rank) {
      taken.insert(*timeline.rank);
    }
  }
  int free = 0;
  for (Timeline& timeline : timelines) {
    while (!timeline.rank && taken.contains(free)) {
      ++free;
    }
    if (!timeline.rank) {
      timeline.rank = free++;
    }
  }
}

std::vector<IdleSite> sites_of(const Timeline& timeline, std::span<const GpuWork> work) {
  std::map<std::tuple<IdleCause, uint32_t, uint32_t, uint32_t>, IdleSite> sites;
  visit_idle(timeline, work, [&](const IdleCharge& charge) {
    const uint32_t name = charge.call == nullptr ? kNoName : charge.call->name;
    const uint32_t place = charge.call == nullptr ? kNoName : charge.call->site;
    const uint32_t op =
        charge.call == nullptr || place != kNoName ? kNoName : timeline.context_of(*charge.call).op;
    IdleSite& site = sites[{charge.cause, name, place, op}];
    site.cause = charge.cause;
    site.ns += charge.ns;
    site.gaps.push_back({charge.ns, charge.next->start_ns});
  });
  std::vector<IdleSite> result;
  for (auto& [key, site] : sites) {
    const auto& [cause, name, place, op] = key;
    site.call = name == kNoName ? "" : timeline.names[name];
    site.site = place == kNoName ? "" : timeline.names[place];
    site.op = op == kNoName ? "" : timeline.names[op];
    result.push_back(std::move(site));
  }
  std::sort(result.begin(), result.end(), [](const IdleSite& a, const IdleSite& b) {
    return std::tie(b.ns, a.cause, a.call, a.site, a.op) <
           std::tie(a.ns, b.cause, b.call, b.site, b.op);
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
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, IdleSite> sites;
  for (const ExposedCopy& copy : exposed_copies(work)) {
    const auto found = launches.find(copy.work->correlation);
    const HostCall* const call = found == launches.end() ? nullptr : found->second;
    const uint32_t name = call == nullptr ? kNoName : call->name;
    const uint32_t place = call == nullptr ? kNoName : call->site;
    const uint32_t op =
        call == nullptr || place != kNoName ? kNoName : timeline.context_of(*call).op;
    IdleSite& site = sites[{copy.work->name, name, place, op}];
    site.ns += copy.ns;
    site.gaps.push_back({copy.ns, copy.work->end_ns});
  }
  std::vector<IdleSite> result;
  for (auto& [key, site] : sites) {
    const auto& [copy, name, place, op] = key;
    site.copy = timeline.names[copy];
    site.call = name == kNoName ? "" : timeline.names[name];
    site.site = place == kNoName ? "" : timeline.names[place];
    site.op = op == kNoName ? "" : timeline.names[op];
    result.push_back(std::move(site));
  }
  std::sort(result.begin(), result.end(), [](const IdleSite& a, const IdleSite& b) {
    return std::tie(b.ns, a.copy, a.call, a.site, a.op) <
           std::tie(a.ns, b.copy, b.call, b.site, b.op);
  });
  return result;
}

// While the device had its window and any thread was in such a call for it.
int64_t blocked_for(const Timeline& timeline, int device, std::span<const GpuWork> work) {
  std::vector<Span> blocked;
  for (const HostCall& call : timeline.calls) {
    if (call.kind == HostCallKind::kBlocking && (call.device < 0 || call.device == device)) {
      blocked.push_back({call.start_ns, call.end_ns});
    }
  }
  return window_within(work, united(std::move(blocked)));
}

int64_t median_lead(const Timeline& timeline, std::span<const GpuWork> work) {
  std::unordered_map<uint64_t, int64_t> launched;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      launched[call.correlation] = call.end_ns;
    }
  }
  std::vector<int64_t> leads;
  for (const GpuWork& each : work) {
    const auto launch = launched.find(each.correlation);
    if (each.kind != WorkKind::kMemory && launch != launched.end()) {
      leads.push_back(each.start_ns - launch->second);
    }
  }
  if (leads.empty()) {
    return 0;
  }
  const auto middle = leads.begin() + static_cast<ptrdiff_t>(leads.size() / 2);
  std::nth_element(leads.begin(), middle, leads.end());
  return *middle;
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
  std::vector<int64_t> starts = {work.front().start_ns};
  for (size_t part = 1; part < kStretches && !kernels.empty(); ++part) {
    starts.push_back(std::max(starts.back(), kernels[kernels.size() * part / kStretches]));
  }
  return starts;
}

std::vector<CollectiveWait> waits_of(const Profile& profile, size_t index) {
  const Timeline& timeline = profile.timelines[index];
  std::unordered_map<uint64_t, int64_t> started;  // by kernel
  for (const GpuWork& work : timeline.work) {
    if (work.kind == WorkKind::kCommunication) {
      started.try_emplace(work.correlation, work.start_ns);
    }
  }
  std::vector<CollectiveWait> waits;
  for (size_t group = 0; group < profile.groups.size(); ++group) {
    const Arrivals& arrivals = profile.groups[group];
    const std::optional<size_t> member = arrivals.member(index);
    for (size_t i = 1; member && arrivals.usable() && i < arrivals.list.size(); ++i) {
      const Arrival& arrival = arrivals.list[i];
      const auto start = started.find(arrival.correlation[*member]);
      if (arrival.is_known() && start != started.end()) {
        waits.push_back({group, i, arrival.wait_of(*member), start->second});
      }
    }
  }
  return waits;
}

void add_devices(Profile& profile, size_t index) {
  const Timeline& timeline = profile.timelines[index];
  std::map<int, std::vector<GpuWork>> by_device;
  for (const GpuWork& work : timeline.work) {
    by_device[work.device].push_back(work);
  }
  const std::vector<CollectiveWait> waits = waits_of(profile, index);
  const Spans profiling = united(timeline.profiling);
  for (const auto& [number, work] : by_device) {
    DeviceProfile device;
    device.rank = {*timeline.rank};
    device.device = number;
    device.index = profile.devices.size();
    device.timeline = index;
    device.times = partition_of(work);
    device.idle = idle_by_cause(timeline, work);
    device.sites = sites_of(timeline, work);
    if (!timeline.by_host) {
      device.copies = copies_of(timeline, work);
    }
    device.blocked_ns = blocked_for(timeline, number, work);
    if (const std::optional<Spans> blocking = blocking_communication(timeline, work)) {
      device.blocking_communication_ns = length_ns(*blocking);
    }
    if (const std::optional<PipelineStage>& stage = profile.stages[index]) {
      device.pipeline_bubble_ns = bubble_ns(timeline, *stage, work);
    }
    device.profiling_ns = window_within(work, profiling);
    device.profiling_idle_ns = idle_within(work, profiling);
    device.median_lead_ns = median_lead(timeline, work);
    device.step_starts = steps_on_device(timeline, number);
    device.steps = device.step_starts.size();
    device.stretches = device.steps < 2 ? equal_parts_of(work) : device.step_starts;
    device.window = window_of(work);
    device.waits = waits;
    device.by_host = timeline.by_host;
    if (!device.step_starts.empty()) {
      device.loop_start_ns = device.step_starts.front();
    }
    profile.devices.push_back(std::move(device));
  }
}

}  // namespace

Profile build_profile(std::vector<Timeline> timelines) {
  Profile profile;
  give_ranks(timelines);
  profile.timelines = std::move(timelines);
  profile.groups = find_arrivals(profile.timelines);
  note_late_peers(profile.groups, profile.timelines);
  profile.stages = find_stages(profile.timelines);
  for (size_t i = 0; i < profile.timelines.size(); ++i) {
    const Timeline& timeline = profile.timelines[i];
    profile.world_size =
        std::max({profile.world_size, timeline.world_size.value_or(0), *timeline.rank + 1});
    add_devices(profile, i);
  }
  return profile;
}

}  // namespace traintrace
