#include "analyzer/detectors/lost_time/launch_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "analyzer/timeline/collectives/collective_note.h"

namespace traintrace {
namespace {

constexpr size_t kMostPlaces = 3;

std::string text_of(const Timeline& timeline, uint32_t name) {
  return name == kNoName ? "" : timeline.names[name];
}

// The collective that it is, if anybody said so: a kernel is launched by a call of the driver.
uint32_t call_name(const Timeline& timeline, const HostCall& launch) {
  const CollectiveNote* const note = collective_note(timeline, launch.correlation);
  return note == nullptr || note->operation == kNoName ? launch.name : note->operation;
}

}  // namespace

std::vector<IdleSite> launch_places(const Timeline& timeline, const std::vector<size_t>& works) {
  std::unordered_map<uint64_t, const HostCall*> launches;
  for (const size_t work : works) {
    launches.try_emplace(timeline.work[work].correlation, nullptr);
  }
  launches.erase(0);
  for (const HostCall& call : timeline.calls) {
    if (const auto found = launches.find(call.correlation);
        found != launches.end() && found->second == nullptr) {
      found->second = &call;
    }
  }
  std::map<std::pair<std::string, std::string>, IdleSite> places;  // by place and call
  for (const size_t index : works) {
    const GpuWork& work = timeline.work[index];
    const auto launch = launches.find(work.correlation);
    if (launch == launches.end() || launch->second == nullptr) {
      continue;
    }
    IdleSite site{};
    site.call = text_of(timeline, call_name(timeline, *launch->second));
    site.site = text_of(timeline, launch->second->site);
    site.op = site.site.empty() ? text_of(timeline, timeline.context_of(*launch->second).op) : "";
    if (site.site.empty() && site.op.empty()) {
      continue;
    }
    IdleSite& place = places.try_emplace({site.site + site.op, site.call}, site).first->second;
    place.ns += work.end_ns - work.start_ns;
    place.gaps.push_back({work.end_ns - work.start_ns, work.end_ns});
  }
  std::vector<IdleSite> result;
  result.reserve(places.size());
  for (auto& [key, place] : places) {
    result.push_back(std::move(place));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const IdleSite& a, const IdleSite& b) { return a.ns > b.ns; });
  return result;
}

void add_launch_places(const DeviceProfile& device, const std::vector<IdleSite>& places,
                       Finding& finding) {
  if (!places.empty()) {
    finding.where.push_back(place_of(device.rank, places.front()));
  }
  for (size_t i = 0; i < std::min(places.size(), kMostPlaces); ++i) {
    const size_t calls = places[i].gaps.size();
    finding.evidence.push_back(fmt::format("rank {}: {} in {} call{} of {}{}", device.rank.value,
                                           ms_text(places[i].ns), calls, calls == 1 ? "" : "s",
                                           places[i].call, caller_text(places[i])));
  }
}

}  // namespace traintrace
