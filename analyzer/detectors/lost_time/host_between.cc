#include "analyzer/detectors/lost_time/host_between.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "analyzer/text/units.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

// The call that launched what ended a gap, as an index; none: it is not known.
std::optional<size_t> launch_after(const Timeline& timeline, int device, const IdleGap& gap) {
  const auto by_start = [](const auto& each, int64_t time) { return each.start_ns < time; };
  if (timeline.by_host) {  // what is supposed to run begins with its call
    auto call =
        std::lower_bound(timeline.calls.begin(), timeline.calls.end(), gap.until_ns, by_start);
    for (; call != timeline.calls.end() && call->start_ns == gap.until_ns; ++call) {
      if (call->correlation != 0) {
        return static_cast<size_t>(call - timeline.calls.begin());
      }
    }
    return std::nullopt;
  }
  auto work = std::lower_bound(timeline.work.begin(), timeline.work.end(), gap.until_ns, by_start);
  while (work != timeline.work.end() && work->start_ns == gap.until_ns && work->device != device) {
    ++work;
  }
  if (work == timeline.work.end() || work->start_ns != gap.until_ns || work->correlation == 0) {
    return std::nullopt;
  }
  auto call =
      std::lower_bound(timeline.calls.begin(), timeline.calls.end(), gap.until_ns, by_start);
  while (call != timeline.calls.begin() && std::prev(call)->start_ns >= gap.until_ns - gap.ns) {
    --call;
    if (call->correlation == work->correlation) {
      return static_cast<size_t>(call - timeline.calls.begin());
    }
  }
  return std::nullopt;
}

// Where the launching thread was seen to be between its calls, as far as anybody looked, in ns of
// `gaps`.
std::map<uint32_t, int64_t> places_in(const Timeline& timeline, int device,
                                      const std::vector<IdleGap>& gaps) {
  std::map<uint32_t, int64_t> places;
  for (const IdleGap& gap : gaps) {
    const std::optional<size_t> launch = launch_after(timeline, device, gap);
    const int64_t begin_ns = gap.until_ns - gap.ns;
    size_t later = launch.value_or(0);
    for (size_t i = later; launch && i-- > 0 && timeline.calls[later].start_ns > begin_ns;) {
      const HostCall& call = timeline.calls[i];
      if (call.thread == timeline.calls[later].thread) {
        const int64_t own_ns = timeline.calls[later].start_ns - std::max(begin_ns, call.end_ns);
        if (later < timeline.spent_in.size() && own_ns > 0) {
          places[timeline.spent_in[later]] += own_ns;
        }
        later = i;
      }
    }
  }
  places.erase(kNoName);
  return places;
}

}  // namespace

std::optional<HostPlace> host_place_between(const Profile& profile, const DeviceProfile& device,
                                            const std::vector<IdleSite>& sites) {
  std::vector<IdleGap> gaps;
  int64_t all = 0;
  for (const IdleSite& site : sites) {
    gaps.insert(gaps.end(), site.gaps.begin(), site.gaps.end());
    all += site.ns;
  }
  const Timeline& timeline = profile.timelines[device.timeline];
  const std::map<uint32_t, int64_t> places = places_in(timeline, device.device, gaps);
  const auto most =
      std::max_element(places.begin(), places.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == places.end() || most->second < all / 2) {
    return std::nullopt;
  }
  return HostPlace{
      timeline.names[most->first],
      std::llround(100 * static_cast<double>(most->second) / static_cast<double>(all))};
}

void add_host_between(const Profile& profile, const DeviceProfile& device, std::string_view when,
                      const std::vector<IdleSite>& sites, Finding& finding) {
  std::vector<int64_t> lengths;
  for (const IdleSite& site : sites) {
    for (const IdleGap& gap : site.gaps) {
      lengths.push_back(gap.ns);
    }
  }
  const std::optional<HostPlace> known = host_place_between(profile, device, sites);
  const size_t count = lengths.size();
  finding.evidence.push_back(fmt::format(
      "rank {}: {} the host was busy for {} or more (median of {}); {}", device.rank.value, when,
      ms_text(upper_median(std::move(lengths))), count,
      known ? fmt::format("for {} % of that time, or more, it was in {}", known->percent,
                          site_text(known->site))
            : "which code that was is not recorded, TRAINTRACE_GPU_TIMELINE=cupti looks at "
              "Python's"));
  if (known) {
    IdleSite site = {};
    site.site = known->site;
    const CodePlace place = place_of(device.rank, site);
    const bool is_new =
        std::none_of(finding.where.begin(), finding.where.end(), [&](const CodePlace& each) {
          return each.rank == place.rank && each.file == place.file && each.line == place.line;
        });
    if (is_new) {
      finding.where.push_back(place);
    }
  }
}

}  // namespace traintrace
