#include "analyzer/timeline/replay/excess.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/collectives/gpu_lateness.h"
#include "analyzer/timeline/host_times.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

using replay::kNone;
using replay::Process;

// Host time before each launch in [from, to], since `from`.  Calls that wait count as launches:
// what the host does up to them it does for the next.
std::vector<Span> times_between_launches(const Process& process, int64_t from_ns, int64_t to_ns) {
  TimesBeforeLaunches times(process.busy.size(), from_ns);
  const auto first = std::lower_bound(
      process.calls.begin(), process.calls.end(), from_ns,
      [](const replay::Call& call, int64_t time_ns) { return call.begin_ns < time_ns; });
  for (auto call = first; call != process.calls.end() && call->begin_ns <= to_ns; ++call) {
    times.launch(call->thread, call->begin_ns);
    if (call->blocks) {
      times.wait(call->thread, call->end_ns);
    }
  }
  return times.take();
}

// Cuts the longest times to one length, so that `ns` is taken away; from the ends of them.
void take_out(std::vector<Span> times, int64_t ns, std::vector<Span>& taken) {
  const auto length = [](const Span& span) { return span.end_ns - span.begin_ns; };
  std::sort(times.begin(), times.end(),
            [&](const Span& a, const Span& b) { return length(a) > length(b); });
  int64_t longest = 0;  // of the first `count` together
  size_t count = 0;
  for (; count < times.size(); ++count) {
    if (longest - static_cast<int64_t>(count) * length(times[count]) >= ns) {
      break;
    }
    longest += length(times[count]);
  }
  const int64_t left =
      count == 0 ? 0 : std::max<int64_t>(0, (longest - ns) / static_cast<int64_t>(count));
  for (size_t i = 0; i < count; ++i) {
    const int64_t cut = length(times[i]) - left;
    if (cut > 0) {
      taken.push_back({times[i].end_ns - cut, times[i].end_ns});
    }
  }
}

// When the member launched each of the collectives, in ns of the process.  Not by the times of
// arrivals: these may be of another clock.
std::vector<int64_t> launches_of(const Timeline& timeline, const Process& process,
                                 const Arrivals& arrivals, size_t member) {
  std::unordered_map<uint64_t, int64_t> launched;  // by correlation
  for (size_t i = 0; i < timeline.work.size(); ++i) {
    if (timeline.work[i].kind == WorkKind::kCommunication) {
      const replay::Work& work = process.works[i];
      launched.try_emplace(timeline.work[i].correlation, work.launch == kNone
                                                             ? work.start_ns
                                                             : process.calls[work.launch].begin_ns);
    }
  }
  std::vector<int64_t> launches;
  for (const Arrival& arrival : arrivals.list) {
    const auto found = launched.find(arrival.correlation[member]);
    const int64_t before = launches.empty() ? std::numeric_limits<int64_t>::min() : launches.back();
    launches.push_back(found == launched.end() ? before : std::max(before, found->second));
  }
  return launches;
}

class GroupExcess {
 public:
  explicit GroupExcess(const Arrivals& arrivals)
      : arrivals_(arrivals), charges_(gpu_charges(arrivals)) {
    for (size_t index = 1; index < arrivals.list.size(); ++index) {
      host_.push_back(arrivals.list[index].is_known() ? host_excess_at(arrivals, index)
                                                      : std::vector<int64_t>());
    }
  }

  void add(size_t member, const Timeline& timeline, const Process& process, Excess& excess) const {
    const std::vector<int64_t> launches = launches_of(timeline, process, arrivals_, member);
    for (size_t index = 1; index < arrivals_.list.size(); ++index) {
      const std::vector<int64_t>& host = host_[index - 1];
      if (!host.empty() && host[member] >= arrivals_.noise_ns()) {
        const int64_t from = launches[known_before(arrivals_, index)];
        take_out(times_between_launches(process, from, launches[index]), host[member], excess.host);
      }
    }
    add_shares(member, process, launches, excess);
  }

 private:
  std::vector<double> usual_shares(size_t member) const;
  void add_shares(size_t member, const Process& process, const std::vector<int64_t>& launches,
                  Excess& excess) const;

  const Arrivals& arrivals_;
  std::vector<GpuCharges> charges_;         // by collective
  std::vector<std::vector<int64_t>> host_;  // by collective, from the second on; by member
};

// By collective: the share of what the member's GPU worked before it that is no more than usual.
std::vector<double> GroupExcess::usual_shares(size_t member) const {
  std::vector<double> shares(arrivals_.list.size(), 1);
  for (size_t index = 1; index < shares.size(); ++index) {
    if (charges_[index].more_ns.empty() || charges_[index].more_ns[member] <= 0) {
      continue;
    }
    int64_t worked = 0;
    const size_t before = known_before(arrivals_, index);
    for (size_t between = before + 1; between <= index; ++between) {
      worked = added_within(worked, arrivals_.list[between].worked_ns[member]);
    }
    const double share = 1 - static_cast<double>(charges_[index].more_ns[member]) /
                                 static_cast<double>(std::max<int64_t>(1, worked));
    std::fill(shares.begin() + static_cast<ptrdiff_t>(before) + 1,
              shares.begin() + static_cast<ptrdiff_t>(index) + 1, share);
  }
  return shares;
}

void GroupExcess::add_shares(size_t member, const Process& process,
                             const std::vector<int64_t>& launches, Excess& excess) const {
  const std::vector<double> shares = usual_shares(member);
  for (size_t index = 0; index < process.works.size(); ++index) {
    const replay::Work& work = process.works[index];
    const int64_t ns = work.launch == kNone ? work.start_ns : process.calls[work.launch].begin_ns;
    const auto next = std::upper_bound(launches.begin(), launches.end(), ns);
    if (next != launches.end() && shares[static_cast<size_t>(next - launches.begin())] < 1) {
      excess.shares.emplace_back(index, shares[static_cast<size_t>(next - launches.begin())]);
    }
  }
}

}  // namespace

std::vector<Excess> excess_of(const ReplayGraph& graph, const Profile& profile,
                              const std::vector<size_t>& ranks) {
  std::vector<Excess> all(ranks.size());
  for (const Arrivals& arrivals : profile.groups) {
    const bool concerned = std::any_of(
        ranks.begin(), ranks.end(), [&](size_t rank) { return arrivals.member(rank).has_value(); });
    if (!concerned || !arrivals.usable() || arrivals.by_host) {
      continue;
    }
    const GroupExcess group(arrivals);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (const std::optional<size_t> member = arrivals.member(ranks[i])) {
        group.add(*member, profile.timelines[ranks[i]], graph.processes[ranks[i]], all[i]);
      }
    }
  }
  return all;
}

}  // namespace traintrace
