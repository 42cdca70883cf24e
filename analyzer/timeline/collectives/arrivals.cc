#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/thresholds.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>

#include "analyzer/timeline/collectives/collective_groups.h"
#include "analyzer/timeline/collectives/collective_note.h"
#include "analyzer/timeline/collectives/handed_over.h"
#include "analyzer/timeline/collectives/own_work.h"
#include "analyzer/timeline/median.h"
#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

struct Side {
  Spans idle;  // of a timeline by the host's calls: for certain
  Launches launches;
  std::vector<Spans> blocked;  // by thread
};

// When the host began to wait for peers before it launched the kernel, else when that began: NCCL
// connects ranks within their first call, and launches only when all have come.
int64_t entry_of(const Timeline& timeline, const Side& side, const GpuWork& kernel) {
  const auto launch = side.launches.find(kernel.correlation);
  for (const HostCall& call : timeline.calls) {
    if (launch != side.launches.end() && call.kind == HostCallKind::kPeerWait &&
        call.thread == launch->second->thread && call.end_ns == launch->second->start_ns) {
      return timeline.base_ns + call.start_ns;
    }
  }
  return timeline.base_ns + kernel.start_ns;
}

// Between what may be work.
Spans idle_of(const Timeline& timeline) {
  std::vector<Span> busy;
  for (const GpuWork& work : timeline.work) {
    busy.push_back({work.start_ns, work.end_ns});
  }
  Spans idle;
  const Spans all = united(std::move(busy));
  for (size_t i = 1; i < all.size(); ++i) {
    idle.push_back({all[i - 1].end_ns, all[i].begin_ns});
  }
  return idle;
}

// By thread.
std::vector<bool> launching_collectives(const Timeline& timeline, const Side& side) {
  std::vector<bool> launching(timeline.threads.size(), false);
  for (const std::vector<GpuWork>& each : {std::cref(timeline.work), std::cref(timeline.entries)}) {
    for (const GpuWork& work : each) {
      const auto launch = work.kind == WorkKind::kCommunication
                              ? side.launches.find(work.correlation)
                              : side.launches.end();
      if (launch != side.launches.end()) {
        launching[launch->second->thread] = true;
      }
    }
  }
  return launching;
}

Side side_of(const Timeline& timeline) {
  Side side;
  if (timeline.by_host) {
    side.idle = idle_of(timeline);
  }
  side.launches = launches_of(timeline);
  std::vector<std::vector<Span>> blocked =
      blocked_elsewhere(timeline, launching_collectives(timeline, side));
  for (std::vector<Span>& each : blocked) {
    // Whichever thread the profiler held up, it is nothing that the job did.
    each.insert(each.end(), timeline.profiling.begin(), timeline.profiling.end());
  }
  for (const HostCall& call : timeline.calls) {
    if (call.kind == HostCallKind::kBlocking) {
      blocked[call.thread].push_back({call.start_ns, call.end_ns});
    }
  }
  for (std::vector<Span>& each : blocked) {
    side.blocked.push_back(united(std::move(each)));
  }
  return side;
}

std::string operation_of(const Timeline& timeline, const GpuWork& work) {
  const CollectiveNote* const note = collective_note(timeline, work.correlation);
  return timeline
      .names[note != nullptr && note->operation != kNoName ? note->operation : work.name];
}

void add_member(const Timeline& timeline, const Side& side, const GroupKernel& collective,
                const HostCall* previous, Arrival& arrival) {
  const GpuWork& kernel = *collective.first;
  const auto launch = side.launches.find(kernel.correlation);
  const HostCall* call = launch == side.launches.end() ? nullptr : launch->second;
  arrival.correlation.push_back(kernel.correlation);
  arrival.start_ns.push_back(timeline.base_ns + kernel.start_ns);
  arrival.end_ns.push_back(timeline.base_ns + collective.end_ns);
  arrival.launch_ns.push_back(timeline.base_ns +
                              (call == nullptr ? kernel.start_ns : call->start_ns));
  arrival.launched.push_back(call != nullptr || side.launches.empty());
  int64_t blocked = 0;
  if (call != nullptr && previous != nullptr && previous->start_ns < call->start_ns) {
    blocked = common_ns(side.blocked[call->thread], {{previous->start_ns, call->start_ns}});
  }
  arrival.blocked_ns.push_back(blocked);
  if (timeline.by_host) {
    const int64_t since = previous == nullptr ? kernel.start_ns : previous->start_ns;
    arrival.most_own_ns.push_back(common_ns(side.idle, {{since, kernel.start_ns}}));
  }
}

// Arrival::worked_ns of one member.
void add_work(const Timeline& timeline, const Side& side, const std::vector<GroupKernel>& kernels,
              std::vector<Arrival>& list) {
  const std::vector<int64_t> launches = launch_times(timeline, side.launches);
  const auto launch_of = [&](const GpuWork& work) {
    return launches[static_cast<size_t>(&work - timeline.work.data())];
  };
  std::vector<LaunchPlace> places;
  for (const GroupKernel& kernel : kernels) {
    const LaunchPlace place = {launch_of(*kernel.first), kernel.first->start_ns};
    places.push_back(places.empty() ? place : std::max(place, places.back()));
  }
  const std::vector<int64_t> worked =
      worked_between(timeline, kernels.front().first->device, places, launch_of);
  for (size_t index = 0; index < list.size(); ++index) {
    list[index].worked_ns.push_back(worked[index]);
  }
}

void compare_ends(Arrivals& arrivals) {
  arrivals.contradicted = 0;
  arrivals.greatest_end_skew_ns = 0;
  for (const Arrival& arrival : arrivals.list) {
    arrivals.contradicted += arrival.is_known() ? 0 : 1;
    arrivals.greatest_end_skew_ns = std::max(arrivals.greatest_end_skew_ns, arrival.end_skew_ns());
  }
}

bool are_on_several_hosts(std::span<const Timeline> timelines, const Arrivals& arrivals) {
  return std::any_of(arrivals.members.begin(), arrivals.members.end(), [&](size_t member) {
    return timelines[member].host != timelines[arrivals.members.front()].host;
  });
}

bool knows_entry(std::span<const Timeline> timelines, const Arrivals& arrivals) {
  if (arrivals.list.empty()) {
    return false;
  }
  const bool one_clock = !timelines[arrivals.members.front()].host.empty() &&
                         !are_on_several_hosts(timelines, arrivals);
  return (one_clock && arrivals.numbered) ||
         (arrivals.usable() && arrivals.list.front().is_known());
}

// Ranks of several groups, and messages, have as many kernels as those of one: where nothing names
// the groups, ends that differ say that what was joined does not belong together, or that clocks do
// not agree.
Arrivals unknown_groups(const Arrivals& joined) {
  Arrivals arrivals;
  arrivals.greatest_end_skew_ns = joined.greatest_end_skew_ns;
  arrivals.why_not = fmt::format(
      "the profiles do not name process groups, and NCCL kernels joined by their order end up to "
      "{:.1f} ms apart: they are messages or of different groups, or clocks differ",
      static_cast<double>(joined.greatest_end_skew_ns) / 1e6);
  return arrivals;
}

// By calls alone, ends contradict nothing: without one clock it is not known who came late.
Arrivals not_on_one_clock(const Arrivals& joined) {
  Arrivals arrivals;
  arrivals.group = joined.group;
  arrivals.by_host = true;
  arrivals.clocks.why_not = joined.clocks.why_not;
  arrivals.why_not = "clocks of hosts cannot be brought together: " + joined.clocks.why_not;
  return arrivals;
}

Arrivals arrivals_of(std::span<const Timeline> timelines, const std::vector<Side>& sides,
                     const CollectiveGroup& group) {
  Arrivals arrivals;
  arrivals.group = group.name;
  arrivals.why_not = group.why_not;
  const bool by_host = std::any_of(timelines.begin(), timelines.end(),
                                   [](const Timeline& timeline) { return timeline.by_host; });
  if (!arrivals.why_not.empty()) {
    return arrivals;
  }
  for (const GroupSide& side : group.sides) {
    arrivals.members.push_back(side.timeline);
    if (!side.kernels.empty()) {
      arrivals.entered_ns.push_back(
          entry_of(timelines[side.timeline], sides[side.timeline], *side.kernels.front().first));
    }
  }
  arrivals.numbered = group.numbered;
  arrivals.cut =
      group.cut || std::any_of(group.sides.begin(), group.sides.end(), [&](const GroupSide& side) {
        return timelines[side.timeline].missing.at_end != 0;
      });
  arrivals.by_host = by_host;
  std::vector<const HostCall*> previous(group.sides.size(), nullptr);
  const GroupSide& first = group.sides.front();
  for (size_t index = 0; index < first.kernels.size(); ++index) {
    Arrival arrival;
    arrival.operation = operation_of(timelines[first.timeline], *first.kernels[index].first);
    for (size_t i = 0; i < group.sides.size(); ++i) {
      const size_t timeline = group.sides[i].timeline;
      const GroupKernel& kernel = group.sides[i].kernels[index];
      const Side& side = sides[timeline];
      add_member(timelines[timeline], side, kernel, previous[i], arrival);
      const auto launch = side.launches.find(kernel.first->correlation);
      previous[i] = launch == side.launches.end() ? nullptr : launch->second;
    }
    arrivals.list.push_back(std::move(arrival));
  }
  for (const GroupSide& side : group.sides) {
    if (!by_host && !arrivals.list.empty()) {
      add_work(timelines[side.timeline], sides[side.timeline], side.kernels, arrivals.list);
    }
  }
  compare_ends(arrivals);
  // Where a profile does not name its host, only its ends can say that its clock is another one.
  if (arrivals.contradicted != 0 || are_on_several_hosts(timelines, arrivals)) {
    arrivals.clocks = align_clocks(timelines, arrivals);
    compare_ends(arrivals);
  }
  if (by_host && !arrivals.clocks.why_not.empty()) {
    return not_on_one_clock(arrivals);
  }
  if (arrivals.group.empty() && !arrivals.numbered && !arrivals.usable() &&
      arrivals.contradicted != 0) {
    return unknown_groups(arrivals);
  }
  arrivals.knows_entry = knows_entry(timelines, arrivals);
  return arrivals;
}

}  // namespace

int64_t Arrival::last_start() const {
  return *std::max_element(start_ns.begin(), start_ns.end());
}
int64_t Arrival::median_end() const {
  return middle_median(end_ns);
}
int64_t Arrival::wait_of(size_t i) const {
  return std::clamp<int64_t>(last_start() - start_ns[i], 0, end_ns[i] - start_ns[i]);
}
int64_t Arrival::transfer_ns() const {
  return std::max<int64_t>(0, median_end() - last_start());
}
int64_t Arrival::end_skew_ns() const {
  const auto [first, last] = std::minmax_element(end_ns.begin(), end_ns.end());
  return *last - *first;
}
bool Arrival::is_known() const {
  if (!most_own_ns.empty()) {
    return true;
  }
  int64_t shortest = end_ns[0] - start_ns[0];
  for (size_t i = 1; i < start_ns.size(); ++i) {
    shortest = std::min(shortest, end_ns[i] - start_ns[i]);
  }
  return end_skew_ns() <= std::max(kEndSkewNs, shortest / 100 * kEndSkewPercent);
}

int64_t Arrivals::noise_ns() const {
  return std::max(kNoiseNs, 3 * clocks.residual_ns);
}

std::optional<size_t> Arrivals::member(size_t timeline) const {
  const auto found = std::find(members.begin(), members.end(), timeline);
  return found == members.end() ? std::nullopt
                                : std::optional(static_cast<size_t>(found - members.begin()));
}

std::vector<Arrivals> find_arrivals(std::span<const Timeline> timelines) {
  std::vector<Side> sides;
  for (const Timeline& timeline : timelines) {
    sides.push_back(side_of(timeline));
  }
  std::vector<Arrivals> all;
  for (const CollectiveGroup& group : collective_groups(timelines)) {
    all.push_back(arrivals_of(timelines, sides, group));
  }
  return all;
}

namespace {

void note_late_peers(const Arrivals& arrivals, std::span<Timeline> timelines) {
  for (size_t i = 0; i < arrivals.members.size(); ++i) {
    Timeline& timeline = timelines[arrivals.members[i]];
    std::unordered_map<uint64_t, int64_t> waited;  // by kernel
    for (const Arrival& arrival : arrivals.list) {
      waited[arrival.correlation[i]] = arrival.is_known() ? arrival.wait_of(i) : 0;
    }
    for (const GpuWork& work : timeline.work) {
      const CollectiveNote* const note = collective_note(timeline, work.correlation);
      const auto found = note == nullptr ? waited.end() : waited.find(work.correlation);
      if (found != waited.end() && found->second >= arrivals.noise_ns()) {
        const auto index = static_cast<size_t>(note - timeline.collectives.data());
        timeline.collectives[index].last_came_ns = work.start_ns + found->second;
      }
    }
  }
}

}  // namespace

void note_late_peers(const std::vector<Arrivals>& groups, std::span<Timeline> timelines) {
  for (const Arrivals& arrivals : groups) {
    if (arrivals.usable()) {
      note_late_peers(arrivals, timelines);
    }
  }
}

// Where those between are not known, it is not known either who came last to them.
size_t known_before(const Arrivals& arrivals, size_t index) {
  size_t before = index - 1;
  while (before > 0 && !arrivals.list[before].is_known()) {
    --before;
  }
  return before;
}

namespace {

// What each member's host did since the last known one, without waiting.
std::vector<int64_t> host_intervals(const Arrivals& arrivals, size_t index) {
  const size_t before = known_before(arrivals, index);
  std::vector<int64_t> intervals;
  for (size_t i = 0; i < arrivals.members.size(); ++i) {
    int64_t blocked = 0;
    for (size_t between = before + 1; between <= index; ++between) {
      blocked = added_within(blocked, arrivals.list[between].blocked_ns[i]);
    }
    intervals.push_back(arrivals.list[index].launch_ns[i] - arrivals.list[before].launch_ns[i] -
                        blocked);
  }
  return intervals;
}

// Whether what the hosts did between it and the one before is known of all members.
bool knows_hosts(const Arrivals& arrivals, size_t index) {
  const auto is_launched = [](const Arrival& arrival) {
    return std::find(arrival.launched.begin(), arrival.launched.end(), false) ==
           arrival.launched.end();
  };
  return is_launched(arrivals.list[index]) &&
         is_launched(arrivals.list[known_before(arrivals, index)]);
}

using Median = int64_t (&)(const std::vector<int64_t>&);

// At most as much as each member then came later than the usual one.
std::vector<int64_t> beyond_usual(const Arrivals& arrivals, size_t index, Median usual_of) {
  if (!knows_hosts(arrivals, index)) {
    return std::vector<int64_t>(arrivals.members.size(), 0);
  }
  const std::vector<int64_t>& starts = arrivals.list[index].start_ns;
  const int64_t usual_start = usual_of(starts);
  std::vector<int64_t> late = host_intervals(arrivals, index);
  const int64_t usual = usual_of(late);
  for (size_t i = 0; i < late.size(); ++i) {
    late[i] = std::min(late[i] - usual, starts[i] - usual_start);
  }
  return late;
}

int64_t middle_of(const std::vector<int64_t>& values) {
  return middle_median(values);
}

// At most as much as each member then came earlier than the usual one.
std::vector<int64_t> earliness_at(const Arrivals& arrivals, size_t index) {
  if (!knows_hosts(arrivals, index)) {
    return std::vector<int64_t>(arrivals.members.size(), 0);
  }
  const std::vector<int64_t>& starts = arrivals.list[index].start_ns;
  const int64_t usual_start = middle_median(starts);
  std::vector<int64_t> early = host_intervals(arrivals, index);
  const int64_t usual = middle_median(early);
  for (size_t i = 0; i < early.size(); ++i) {
    early[i] = std::min(usual - early[i], usual_start - starts[i]);
  }
  return early;
}

}  // namespace

std::vector<int64_t> lateness_at(const Arrivals& arrivals, size_t index) {
  const std::vector<int64_t>& most = arrivals.list[index].most_own_ns;
  std::vector<int64_t> late = beyond_usual(arrivals, index, middle_of);
  for (size_t i = 0; i < most.size(); ++i) {
    late[i] = std::min(late[i], most[i]);
  }
  return late;
}

std::vector<int64_t> host_excess_at(const Arrivals& arrivals, size_t index) {
  if (!knows_hosts(arrivals, index)) {
    return std::vector<int64_t>(arrivals.members.size(), 0);
  }
  std::vector<int64_t> excess = host_intervals(arrivals, index);
  const int64_t usual = median_or_lesser(excess);
  for (int64_t& each : excess) {
    each -= usual;
  }
  return excess;
}

std::vector<int64_t> host_lateness_at(const Arrivals& arrivals, size_t index) {
  return beyond_usual(arrivals, index, median_or_lesser);
}

std::vector<OwnLateness> own_lateness(const Arrivals& arrivals) {
  std::vector<OwnLateness> result(arrivals.members.size());
  for (size_t member = 0; member < result.size(); ++member) {
    result[member].member = member;
  }
  const int64_t usual_entry = middle_median(arrivals.entered_ns);
  for (OwnLateness& each : result) {
    each.entry_ns = arrivals.entered_ns[each.member] - usual_entry;
  }
  for (size_t index = 1; index < arrivals.list.size(); ++index) {
    const Arrival& arrival = arrivals.list[index];
    if (!arrival.is_known()) {
      continue;
    }
    const std::vector<int64_t> late = lateness_at(arrivals, index);
    const std::vector<int64_t> early = earliness_at(arrivals, index);
    for (OwnLateness& each : result) {
      const int64_t own = late[each.member];
      if (early[each.member] >= arrivals.noise_ns()) {
        each.spared.push_back(early[each.member]);
      }
      each.waited_ns = added(each.waited_ns, arrival.wait_of(each.member));
      if (own >= arrivals.noise_ns()) {
        each.charged_ns = added(each.charged_ns, own);
        ++each.times;
        each.charges.push_back(own);
        each.charged_at.push_back(index);
      }
    }
  }
  return result;
}

}  // namespace traintrace
