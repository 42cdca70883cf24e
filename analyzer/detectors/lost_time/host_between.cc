#include "analyzer/detectors/lost_time/host_between.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/text/units.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

// Where the launching thread was seen to be, as far as anybody looked, in ns of `gaps`.
std::map<uint32_t, int64_t> places_before(const Timeline& timeline,
                                          const std::vector<IdleGap>& gaps) {
  std::map<uint32_t, int64_t> places;
  for (const IdleGap& gap : gaps) {
    auto call =
        std::lower_bound(timeline.calls.begin(), timeline.calls.end(), gap.until_ns,
                         [](const HostCall& each, int64_t time) { return each.start_ns < time; });
    for (; call != timeline.calls.end() && call->start_ns == gap.until_ns; ++call) {
      const auto index = static_cast<size_t>(call - timeline.calls.begin());
      if (call->correlation != 0 && index < timeline.spent_in.size()) {
        places[timeline.spent_in[index]] += gap.ns;
        break;
      }
    }
  }
  places.erase(kNoName);
  return places;
}

}  // namespace

void add_host_between(const Profile& profile, const DeviceProfile& device, std::string_view when,
                      const std::vector<IdleSite>& sites, Finding& finding) {
  std::vector<IdleGap> gaps;
  std::vector<int64_t> lengths;
  int64_t all = 0;
  for (const IdleSite& site : sites) {
    for (const IdleGap& gap : site.gaps) {
      gaps.push_back(gap);
      lengths.push_back(gap.ns);
      all += gap.ns;
    }
  }
  const Timeline& timeline = profile.timelines[device.timeline];
  const std::map<uint32_t, int64_t> places = places_before(timeline, gaps);
  const auto most =
      std::max_element(places.begin(), places.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool is_known = most != places.end() && 2 * most->second >= all;
  finding.evidence.push_back(fmt::format(
      "rank {}: {} the host was busy for {} or more (median of {}); {}", device.rank.value, when,
      ms_text(upper_median(std::move(lengths))), gaps.size(),
      is_known ? fmt::format("for {} % of that time, or more, it was in {}",
                             std::llround(100 * static_cast<double>(most->second) /
                                          static_cast<double>(all)),
                             timeline.names[most->first])
               : "which code that was is not recorded, TRAINTRACE_GPU_TIMELINE=cupti looks at "
                 "Python's"));
  if (is_known) {
    IdleSite site = {};
    site.site = timeline.names[most->first];
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
