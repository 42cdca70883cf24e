// Where the time of GPUs went.
#include <algorithm>
#include <set>

#include "analyzer/page/page_data.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/collectives/gpu_lateness.h"
#include "analyzer/timeline/median.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {
namespace {

constexpr size_t kMostSteps = 400;
constexpr size_t kMostSites = 60;
constexpr size_t kMostArrivals = 20'000;  // cells of the matrix

PageJson devices_json(const Profile& profile) {
  PageJson list = PageJson::array();
  for (const DeviceProfile& device : profile.devices) {
    const TimePartition& times = device.times;
    list.push_back({{"rank", device.rank.value},
                    {"device", device.device},
                    {"steps", device.steps},
                    {"window", times.window_ns},
                    {"compute", times.compute_ns},
                    {"communication", times.exposed_communication_ns},
                    {"copies", times.exposed_memory_ns},
                    {"idle", device.idle}});
  }
  return list;
}

// On the first of its GPUs.
std::vector<int64_t> starts_of(const Profile& profile, const Timeline& timeline) {
  const auto device = std::find_if(
      profile.devices.begin(), profile.devices.end(),
      [&](const DeviceProfile& each) { return &profile.timelines[each.timeline] == &timeline; });
  return device == profile.devices.end() ? std::vector<int64_t>() : device->step_starts;
}

PageJson steps_json(const Profile& profile) {
  constexpr size_t kMostRanks = 64;
  PageJson list = PageJson::array();
  for (const Timeline& timeline : profile.timelines) {
    const std::vector<int64_t> starts = starts_of(profile, timeline);
    if (starts.size() < 2 || !timeline.rank || list.size() >= kMostRanks) {
      continue;
    }
    PageJson lengths = PageJson::array();
    for (size_t i = 1; i < std::min(starts.size(), kMostSteps); ++i) {
      lengths.push_back(starts[i] - starts[i - 1]);
    }
    list.push_back({{"rank", *timeline.rank}, {"ns", std::move(lengths)}});
  }
  return list;
}

// Idle time by cause and line, over all ranks.
PageJson sites_json(const Profile& profile, TextTable& texts) {
  using Key = std::tuple<IdleCause, std::string, std::string>;
  struct Sum {
    int64_t ns = 0, gaps = 0;
    Ranks ranks;
  };
  std::map<Key, Sum> sums;
  for (const DeviceProfile& device : profile.devices) {
    for (const IdleSite& site : device.sites) {
      Sum& sum = sums[{site.cause, site.call, site.site}];
      sum.ns += site.ns;
      sum.gaps += static_cast<int64_t>(site.gaps.size());
      insert(sum.ranks, device.rank);
    }
  }
  std::vector<std::pair<const Key, Sum>*> order;
  order.reserve(sums.size());
  for (auto& sum : sums) {
    order.push_back(&sum);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->second.ns > b->second.ns; });
  order.resize(std::min(order.size(), kMostSites));
  PageJson list = PageJson::array();
  for (const auto* const site : order) {
    const auto& [cause, call, place] = site->first;
    list.push_back({{"cause", kIdleCauseNames[static_cast<size_t>(cause)]},
                    {"call", texts.index(call)},
                    {"place", texts.index(place)},
                    {"ns", site->second.ns},
                    {"gaps", site->second.gaps},
                    {"ranks", rank_list(site->second.ranks)}});
  }
  return list;
}

// Which members made each collective late by what their own host or GPU did since the one before,
// as latency.straggler counts it: who comes last may be held up by what was before.
std::vector<std::set<size_t>> delayed_by(const Arrivals& arrivals) {
  std::vector<std::set<size_t>> by(arrivals.list.size());
  for (const OwnLateness& own : own_lateness(arrivals)) {
    for (const size_t collective : own.charged_at) {
      by[collective].insert(own.member);
    }
  }
  const std::vector<GpuCharges> charges =
      arrivals.by_host ? std::vector<GpuCharges>() : gpu_charges(arrivals);
  for (size_t i = 0; i < charges.size(); ++i) {
    const Arrival& arrival = arrivals.list[i];
    const int64_t delay = arrival.last_start() - median_or_lesser(arrival.start_ns);
    for (size_t member = 0; member < charges[i].charged_ns.size(); ++member) {
      const int64_t charged = charges[i].charged_ns[member];
      if (charged >= arrivals.noise_ns() &&
          static_cast<double>(charged) >= kLateAsLast * static_cast<double>(delay)) {
        by[i].insert(member);
      }
    }
  }
  return by;
}

// How much later than the first each rank came to each collective, of the group of ranks of which
// most is known.
PageJson arrivals_json(const Profile& profile, TextTable& texts) {
  const auto cells = [](const Arrivals& arrivals) {
    return arrivals.usable() ? arrivals.members.size() * arrivals.list.size() : 0;
  };
  const auto largest =
      std::max_element(profile.groups.begin(), profile.groups.end(),
                       [&](const Arrivals& a, const Arrivals& b) { return cells(a) < cells(b); });
  const Arrivals none;
  const Arrivals& arrivals = largest == profile.groups.end() ? none : *largest;
  PageJson json = {{"why_not", arrivals.usable() ? "" : arrivals.why_not},
                   {"ranks", PageJson::array()},
                   {"operations", PageJson::array()},
                   {"late", PageJson::array()},
                   {"delayed_by", PageJson::array()}};
  if (!arrivals.usable()) {
    return json;
  }
  for (const size_t member : arrivals.members) {
    json["ranks"].push_back(profile.timelines[member].rank.value_or(-1));
  }
  const std::vector<std::set<size_t>> by = delayed_by(arrivals);
  for (size_t i = 0; i < arrivals.list.size(); ++i) {
    const Arrival& arrival = arrivals.list[i];
    if ((json["late"].size() + 1) * arrivals.members.size() > kMostArrivals) {
      break;
    }
    const int64_t first = *std::min_element(arrival.start_ns.begin(), arrival.start_ns.end());
    PageJson late = PageJson::array();
    for (const int64_t start : arrival.start_ns) {
      late.push_back(start - first);
    }
    json["operations"].push_back(texts.index(arrival.operation));
    json["late"].push_back(std::move(late));
    json["delayed_by"].push_back(by[i]);
  }
  return json;
}

}  // namespace

PageJson page_steps(const Profile* profile, TextTable& texts) {
  if (profile == nullptr) {
    return nullptr;
  }
  PageJson causes = PageJson::array();
  for (const char* const name : kIdleCauseNames) {
    causes.push_back(name);
  }
  return {{"causes", std::move(causes)},
          {"devices", devices_json(*profile)},
          {"steps", steps_json(*profile)},
          {"sites", sites_json(*profile, texts)},
          {"arrivals", arrivals_json(*profile, texts)}};
}

}  // namespace traintrace
