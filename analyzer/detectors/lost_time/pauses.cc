#include "analyzer/detectors/lost_time/pauses.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

constexpr IdleCause kPauseCauses[] = {IdleCause::kDataStarvation, IdleCause::kSyncInduced,
                                      IdleCause::kAllocator,      IdleCause::kHostPeerWait,
                                      IdleCause::kHostBound,      IdleCause::kLaunchCall};
// How far waiting is followed from rank to rank.
constexpr int kMostRanksBetween = 8;

void add_single(const DeviceProfile& device, const std::vector<IdleSite>& sites,
                std::map<int64_t, Pause>& pauses) {
  for (const IdleSite& site : sites) {
    std::map<int64_t, IdleSite> parts;
    for (const IdleGap& gap : site.gaps) {
      IdleSite& part = parts[stretch_of(device, gap)];
      part.ns += gap.ns;
      part.gaps.push_back(gap);
    }
    for (auto& [stretch, part] : parts) {
      Pause& pause = pauses[stretch];
      pause.stretch = stretch;
      pause.ns += part.ns;
      IdleSite& own = pause.sites.emplace_back(site.without_gaps());
      own.ns = part.ns;
      own.gaps = std::move(part.gaps);
    }
  }
}

// Of a GPU, while it had such pauses.
Spans spans_of(const std::vector<Pause>& pauses) {
  std::vector<Span> spans;
  for (const Pause& pause : pauses) {
    for (const IdleSite& site : pause.sites) {
      for (const IdleGap& gap : site.gaps) {
        spans.push_back({gap.until_ns - gap.ns, gap.until_ns});
      }
    }
  }
  return united(std::move(spans));
}

// Steps that are slow from one on, or for a while, have no pauses between them.  By the host's
// calls alone what looks like a step may be several, from one pause to the next.
bool is_in_steps_in_a_row(const DeviceProfile& device, const IdleSite& site) {
  return device.steps >= 2 && !device.by_host &&
         std::adjacent_find(site.gaps.begin(), site.gaps.end(),
                            [&](const IdleGap& one, const IdleGap& next) {
                              return stretch_of(device, next) - stretch_of(device, one) < 2;
                            }) != site.gaps.end();
}

// At no even distances, but so many, so much and all over the recording that they will come again,
// as where garbage is collected, or some batches take long.
bool comes_often(const DeviceProfile& device, const IdleSite& site) {
  if (site.gaps.size() < kFewestGapsByHost || device.share(site.ns) < kReturningShare) {
    return false;
  }
  std::set<double> tenths;
  for (const IdleGap& gap : site.gaps) {
    const auto since = static_cast<double>(gap.until_ns - device.loop.begin_ns);
    tenths.insert(std::floor(10 * since / static_cast<double>(device.times.window_ns)));
  }
  return tenths.size() >= kAllOver;
}

// The calls alone do not tell shorter ones from a host that was preempted.
constexpr int64_t kLongByHostNs = kPauseTimes * kLeastByHostNs;

bool is_beyond_preemption(const IdleSite& site) {
  return std::all_of(site.gaps.begin(), site.gaps.end(),
                     [](const IdleGap& gap) { return gap.ns >= kLongByHostNs; });
}

// A line whose pauses come again: after as much work each time, and over two fifths of the work.
bool comes_evenly(const DeviceProfile& device, const IdleSite& site) {
  // Three hosts that were preempted may well be so at even distances, six not, nor for so long.
  const size_t fewest = device.by_host && !is_beyond_preemption(site) ? 2 * kReturns : kReturns;
  if (site.gaps.size() < fewest || is_in_steps_in_a_row(device, site)) {
    return false;
  }
  int64_t shortest = std::numeric_limits<int64_t>::max();
  int64_t longest = 0;
  int64_t all = 0;
  for (size_t i = 1; i < site.gaps.size(); ++i) {
    const IdleGap& gap = site.gaps[i];
    const int64_t work = gap.until_ns - gap.ns - site.gaps[i - 1].until_ns;
    shortest = std::min(shortest, work);
    longest = std::max(longest, work);
    all = added_within(all, work);
  }
  // Three at even distances leave out half of it at most; the ends of a window may be late.
  return longest / 2 <= shortest && all >= (device.times.window_ns - site.ns) / 5 * 2;
}

bool is_same_line(const IdleSite& a, const IdleSite& b) {
  return a.copy.empty() && b.copy.empty() &&
         std::tie(a.cause, a.call, a.site, a.op) == std::tie(b.cause, b.call, b.site, b.op);
}

// By the host's calls alone a gap is parted by how long the call before it blocked: here it is one
// again, on the line of that call where there is one.
std::vector<IdleSite> whole_gaps(const std::map<int64_t, Pause>& pauses) {
  std::map<int64_t, IdleSite> gaps;  // by their ends
  for (const auto& [stretch, pause] : pauses) {
    for (const IdleSite& site : pause.sites) {
      for (const IdleGap& gap : site.gaps) {
        if (site.copy.empty()) {
          IdleSite& whole = gaps.try_emplace(gap.until_ns, site.without_gaps()).first->second;
          if (whole.spent_in_site && !site.spent_in_site) {
            IdleSite line = site.without_gaps();
            line.ns = whole.ns;
            whole = line;
          }
          whole.ns = added_within(whole.ns, gap.ns);
        }
      }
    }
  }
  std::vector<IdleSite> sites;
  for (auto& [until_ns, site] : gaps) {
    site.cause = IdleCause::kHostBound;
    site.gaps = {{site.ns, until_ns}};
    sites.push_back(std::move(site));
  }
  return sites;
}

// However many gaps it has in one step, that is one pause.
IdleSite one_pause(const DeviceProfile& device, const IdleSite& site) {
  IdleSite one = site;
  if (device.steps >= 2) {
    one.gaps = {{site.ns, site.gaps.back().until_ns}};
  }
  return one;
}

std::vector<IdleSite> sites_of_pauses(const DeviceProfile& device,
                                      const std::map<int64_t, Pause>& pauses) {
  if (device.by_host) {
    return whole_gaps(pauses);
  }
  std::vector<IdleSite> sites;
  for (const auto& [stretch, pause] : pauses) {
    for (const IdleSite& site : pause.sites) {
      if (site.copy.empty()) {
        sites.push_back(one_pause(device, site));
      }
    }
  }
  return sites;
}

// What is short beside the pauses in which half of a line's time is does not come for the same
// reason.
void leave_out_short(IdleSite& line) {
  std::vector<int64_t> longest;
  for (const IdleGap& gap : line.gaps) {
    longest.push_back(gap.ns);
  }
  std::sort(longest.begin(), longest.end(), std::greater<>());
  int64_t sum = 0;
  int64_t usual = 0;
  for (const int64_t ns : longest) {
    if (sum >= line.ns / 2) {
      break;
    }
    sum += ns;
    usual = ns;
  }
  std::erase_if(line.gaps, [&](const IdleGap& gap) { return gap.ns < usual / kPauseTimes; });
  line.ns = 0;
  for (const IdleGap& gap : line.gaps) {
    line.ns += gap.ns;
  }
}

std::optional<IdleSite> returning_of(const DeviceProfile& device,
                                     const std::map<int64_t, Pause>& pauses) {
  using Key = std::tuple<IdleCause, std::string, std::string, std::string>;
  std::map<Key, IdleSite> lines;
  for (const IdleSite& site : sites_of_pauses(device, pauses)) {
    IdleSite empty = site.without_gaps();
    empty.kernel.clear();  // what comes after a pause need not be the same each time
    IdleSite& line =
        lines.try_emplace({site.cause, site.call, site.site, site.op}, empty).first->second;
    line.gaps.insert(line.gaps.end(), site.gaps.begin(), site.gaps.end());
    line.ns += site.ns;
  }
  std::optional<IdleSite> most;
  for (auto& [key, line] : lines) {
    leave_out_short(line);
    std::sort(line.gaps.begin(), line.gaps.end(),
              [](const IdleGap& a, const IdleGap& b) { return a.until_ns < b.until_ns; });
    const bool is_enough =
        device.share(line.ns) >= kPauseShare && (!device.by_host || line.ns >= kLeastByHostNs);
    if (is_enough && (comes_evenly(device, line) || comes_often(device, line)) &&
        (!most || line.ns > most->ns)) {
      most = std::move(line);
    }
  }
  return most;
}

// A wait for a pause is hardly shorter than so much of it.
int64_t shortest_wait(const DeviceProfile& device, const std::vector<Pauses>& pauses) {
  auto least = static_cast<int64_t>(kPauseShare * static_cast<double>(device.times.window_ns));
  for (const Pauses& each : pauses) {
    if (each.returning) {
      for (const IdleGap& gap : each.returning->gaps) {
        least = std::min(least, gap.ns / kPauseTimes);
      }
    }
  }
  return least;
}

// Who made whom wait, and why.
class LateOnce {
 public:
  LateOnce(const Profile& profile, const std::vector<Pauses>& pauses) : profile_(profile) {
    for (const Pauses& each : pauses) {
      paused_.push_back(spans_of(each.list));
    }
    for (const DeviceProfile& device : profile.devices) {
      device_of_.try_emplace(device.timeline, device.index);
      std::vector<CollectiveWait>& waits = waits_.emplace_back(unusual_waits(device));
      const int64_t least = shortest_wait(device, pauses);
      std::erase_if(waits, [&](const CollectiveWait& wait) { return wait.ns < least; });
      again_.push_back(single_waits(device).empty());
    }
  }

  std::vector<WaitOnce> of(size_t device) const {
    std::vector<WaitOnce> result;
    for (const CollectiveWait& wait : waits_[device]) {
      if (const std::optional<Came> last = last_of(wait)) {
        const bool for_a_pause = is_for_a_pause(*last, wait.ns, kMostRanksBetween);
        const bool is_long = profile_.devices[device].share(wait.ns) >= kPauseShare;
        if (for_a_pause || (is_long && !again_[device])) {
          result.push_back({wait, last->device, for_a_pause, again_[device]});
        }
      }
    }
    return result;
  }

 private:
  struct Came {
    size_t device;
    int64_t at_ns;  // by its own clock
  };

  // Who came last to it.
  std::optional<Came> last_of(const CollectiveWait& wait) const {
    const Arrivals& arrivals = profile_.groups[wait.group];
    const Arrival& arrival = arrivals.list[wait.collective];
    const auto last = std::max_element(arrival.start_ns.begin(), arrival.start_ns.end());
    const size_t timeline = arrivals.members[static_cast<size_t>(last - arrival.start_ns.begin())];
    const auto device = device_of_.find(timeline);
    if (device == device_of_.end()) {
      return std::nullopt;
    }
    const std::vector<CollectiveWait>& waits = profile_.devices[device->second].waits;
    const auto own = std::find_if(waits.begin(), waits.end(), [&](const CollectiveWait& each) {
      return each.group == wait.group && each.collective == wait.collective;
    });
    return own == waits.end() ? std::nullopt : std::optional(Came{device->second, own->at_ns});
  }

  // For most of the time that others waited for it.
  bool is_for_a_pause(const Came& last, int64_t waited_ns, int hops) const {
    const Span late = {last.at_ns - waited_ns, last.at_ns};
    if (2 * length_ns(within(paused_[last.device], late)) >= waited_ns) {
      return true;
    }
    return hops > 0 && std::any_of(waits_[last.device].begin(), waits_[last.device].end(),
                                   [&](const CollectiveWait& wait) {
                                     const Span own = {wait.at_ns, wait.at_ns + wait.ns};
                                     const std::optional<Came> earlier = last_of(wait);
                                     return 2 * common_ns({own}, {late}) >= waited_ns && earlier &&
                                            is_for_a_pause(*earlier, wait.ns, hops - 1);
                                   });
  }

  const Profile& profile_;
  std::vector<Spans> paused_;                       // by device
  std::vector<std::vector<CollectiveWait>> waits_;  // the same
  std::vector<bool> again_;                         // the same: whether these come again
  std::map<size_t, size_t> device_of_;              // by timeline: its first
};

}  // namespace

size_t Pause::gaps() const {
  size_t count = 0;
  for (const IdleSite& site : sites) {
    count += site.gaps.size();
  }
  return count;
}

int64_t Pause::longest_ns() const {
  int64_t longest = 0;
  for (const IdleSite& site : sites) {
    for (const IdleGap& gap : site.gaps) {
      longest = std::max(longest, gap.ns);
    }
  }
  return longest;
}

bool Pause::is_one() const {
  return longest_ns() >= ns / 10 * 9;
}

namespace {

bool is_told_alone(const DeviceProfile& device, const Pause& pause) {
  return device.share(pause.ns) >= kPauseShare &&
         (!device.by_host || pause.longest_ns() >= kLongByHostNs);
}

}  // namespace

Pauses pauses_of(const DeviceProfile& device) {
  std::map<int64_t, Pause> by_stretch;
  for (const IdleCause cause : kPauseCauses) {
    add_single(device, single_pauses(device, of_cause(cause)), by_stretch);
  }
  add_single(device, single_copies(device), by_stretch);
  Pauses pauses;
  pauses.returning = returning_of(device, by_stretch);
  pauses.returns_evenly = pauses.returning && comes_evenly(device, *pauses.returning);
  std::set<int64_t> returns;  // in which stretches
  if (pauses.returning) {
    for (const IdleGap& gap : pauses.returning->gaps) {
      returns.insert(gap.until_ns);
    }
  }
  const auto has_one = [&](const Pause& pause) {
    return std::any_of(pause.sites.begin(), pause.sites.end(), [&](const IdleSite& site) {
      return (device.by_host || is_same_line(site, *pauses.returning)) &&
             std::any_of(site.gaps.begin(), site.gaps.end(),
                         [&](const IdleGap& gap) { return returns.contains(gap.until_ns); });
    });
  };
  for (auto& [stretch, pause] : by_stretch) {
    if (is_told_alone(device, pause) || (pauses.returning && has_one(pause))) {
      std::stable_sort(pause.sites.begin(), pause.sites.end(),
                       [](const IdleSite& a, const IdleSite& b) { return a.ns > b.ns; });
      pauses.list.push_back(std::move(pause));
    }
  }
  std::stable_sort(pauses.list.begin(), pauses.list.end(),
                   [](const Pause& a, const Pause& b) { return a.ns > b.ns; });
  return pauses;
}

std::optional<Pause> start_up_of(const DeviceProfile& device) {
  const int64_t lost_ns = device.start_up_lost_ns();
  return lost_ns > 0 && device.share_of_whole(lost_ns) >= kWarnShare
             ? std::optional(Pause{-1, lost_ns, device.start_up})
             : std::nullopt;
}

Spans spans_of_returning(const DeviceProfile& device) {
  const Pauses pauses = pauses_of(device);
  const std::optional<IdleSite>& line = pauses.returning;
  if (!line || !pauses.returns_evenly || device.steps < 2) {
    return {};
  }
  std::vector<Span> spans;
  for (const IdleGap& gap : line->gaps) {
    spans.push_back({gap.until_ns - gap.ns, gap.until_ns});
  }
  return united(std::move(spans));
}

std::vector<std::vector<WaitOnce>> waits_once(const Profile& profile,
                                              const std::vector<Pauses>& pauses) {
  const LateOnce late(profile, pauses);
  std::vector<std::vector<WaitOnce>> waits;
  for (const DeviceProfile& device : profile.devices) {
    waits.push_back(late.of(device.index));
  }
  return waits;
}

}  // namespace traintrace
