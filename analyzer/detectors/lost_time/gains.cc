#include "analyzer/detectors/lost_time/gains.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/detectors/lost_time/small_collectives.h"
#include "analyzer/detectors/lost_time/time_account.h"
#include "analyzer/timeline/replay/replay_meetings.h"

namespace traintrace {
namespace {

// The idle time that a finding with that code is about.
std::vector<IdleSite> sites_about(std::string_view code, const DeviceProfile& device) {
  const auto repeated = [&](IdleCause cause) { return repeated_sites(device, of_cause(cause)); };
  if (code == "latency.sync-in-loop" || code == "latency.pageable-copy") {
    const bool copies = code == "latency.pageable-copy";
    return repeated_sites(device, [copies](const IdleSite& site) {
      return site.cause == IdleCause::kSyncInduced && is_after_pageable_copy(site) == copies;
    });
  }
  if (code == "latency.data-starvation") {
    return repeated(IdleCause::kDataStarvation);
  }
  if (code == "latency.implicit-sync") {
    return repeated(IdleCause::kAllocator);
  }
  if (code == "latency.host-bound") {
    return late_sites(device);
  }
  return {};
}

// The copies that it is about.
std::vector<IdleSite> copies_about(std::string_view code, const DeviceProfile& device) {
  const bool pageable = code == "latency.pageable-copy";
  if (!pageable && code != "latency.exposed-copy") {
    return {};
  }
  return repeated_copies(
      device, [pageable](const IdleSite& copy) { return is_pageable(copy) == pageable; });
}

struct WholeCause {
  std::string_view code;
  IdleCause cause;
};
constexpr WholeCause kWhole[] = {{"latency.lazy-load", IdleCause::kLazyLoad},
                                 {"latency.cpu-contention", IdleCause::kLaunchCall},
                                 {"latency.graph-gap", IdleCause::kGraphInternal},
                                 {"latency.exposed-communication", IdleCause::kCommunicationWait}};

constexpr std::string_view kOfAllRanks[] = {"latency.rotating-stall", "latency.wait-not-transfer"};

// Of one device: each cause once, with the ends of its gaps.
void add_sites(std::string_view code, const DeviceProfile& device, Removal& removal) {
  std::map<IdleCause, std::vector<int64_t>> ends;
  for (const IdleSite& site : sites_about(code, device)) {
    for (const IdleGap& gap : site.gaps) {
      ends[site.cause].push_back(gap.until_ns);
    }
  }
  for (auto& [cause, until_ns] : ends) {
    std::sort(until_ns.begin(), until_ns.end());
    removal.idle.push_back({device.index, cause, std::move(until_ns)});
  }
  std::vector<int64_t> copied;  // when they were done
  for (const IdleSite& site : copies_about(code, device)) {
    for (const IdleGap& copy : site.gaps) {
      copied.push_back(copy.until_ns);
    }
  }
  if (!copied.empty()) {
    std::sort(copied.begin(), copied.end());
    removal.copies.push_back({device.index, std::move(copied), code == "latency.pageable-copy"});
  }
}

void add_idle(const Profile& profile, const Finding& finding, Removal& removal) {
  std::set<size_t> devices;
  for (const NamedLoss& named : finding.named) {
    devices.insert(named.device);
  }
  for (const size_t device : devices) {
    add_sites(finding.code, profile.devices[device], removal);
    for (const WholeCause& whole : kWhole) {
      if (whole.code == finding.code) {
        removal.idle.push_back({device, whole.cause, {}});
      }
    }
    if (finding.code == "latency.exposed-communication") {
      removal.communication.push_back(device);
    }
    if (finding.code == "latency.default-stream") {
      removal.legacy.push_back(device);
    }
    if (finding.code == "latency.small-collectives") {
      removal.pieces.push_back({profile.devices[device].timeline,
                                small_collectives(profile, profile.devices[device]).others});
    }
  }
}

std::vector<size_t> all_ranks(const Profile& profile) {
  std::vector<size_t> all(profile.timelines.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

// In Profile::timelines: those whose own doing makes others wait.
std::vector<size_t> late_ranks_about(const Profile& profile, const Finding& finding) {
  if (std::find(std::begin(kOfAllRanks), std::end(kOfAllRanks), finding.code) !=
      std::end(kOfAllRanks)) {
    return all_ranks(profile);
  }
  std::vector<size_t> late;
  for (size_t i = 0; i < profile.timelines.size() && finding.code == "latency.straggler"; ++i) {
    if (contains(finding.culprits, Rank{*profile.timelines[i].rank})) {
      late.push_back(i);
    }
  }
  return late;
}

// Whose hosts lose time on what it is about, in Profile::timelines.
std::vector<size_t> slow_hosts_about(const Profile& profile, const Finding& finding) {
  std::vector<size_t> hosts;
  if (finding.code == "latency.data-starvation" || finding.code == "latency.host-bound") {
    for (size_t i = 0; i < profile.timelines.size(); ++i) {
      if (contains(finding.culprits, Rank{*profile.timelines[i].rank})) {
        hosts.push_back(i);
      }
    }
  }
  return hosts;
}

Removal removal_of(const Profile& profile, const Finding& finding) {
  Removal removal;
  removal.slow_hosts = slow_hosts_about(profile, finding);
  if (finding.code == "latency.lazy-load") {
    removal.loaded_hosts = all_ranks(profile);  // others wait for all of them
  }
  removal.late_ranks = late_ranks_about(profile, finding);
  add_idle(profile, finding, removal);
  for (const SlowerGpu& slower : finding.slower) {
    removal.faster.push_back({slower.device, slower.part, slower.share});
  }
  return removal;
}

bool is_empty(const Removal& removal) {
  return removal.idle.empty() && removal.communication.empty() && removal.copies.empty() &&
         removal.faster.empty() && removal.legacy.empty() && removal.late_ranks.empty() &&
         removal.loaded_hosts.empty() && removal.pieces.empty();
}

// `device`: the one that gains most of all.
std::string gain_text(const Profile& profile, const DeviceProfile& device, int64_t loop_ns) {
  return fmt::format(
      "if this were solved{}, the {} of rank {}{} would take {} instead of {}, at best",
      profile.devices.size() > 1 ? " on all ranks" : "",
      device.steps > 1 ? "step" : "recorded window", device.rank.value,
      profile.devices.size() > 1 ? ", which gains most," : "", ms_text(device.per_step(loop_ns)),
      ms_text(device.per_step(device.times.window_ns)));
}

void add_gain(const Profile& profile, const std::vector<ReplayedTime>& times, Finding& finding) {
  const DeviceProfile* most = nullptr;
  int64_t gain = 0;
  for (const DeviceProfile& device : profile.devices) {
    const int64_t ns = device.times.window_ns - times[device.index].loop_ns;
    if (ns > gain) {
      most = &device;
      gain = ns;
    }
  }
  finding.values.emplace_back("gain_ns", gain);
  if (most != nullptr) {
    finding.evidence.push_back(gain_text(profile, *most, times[most->index].loop_ns));
  }
}

}  // namespace

bool can_replay(const Profile& profile) {
  size_t all = 0;
  for (const Timeline& timeline : profile.timelines) {
    if (timeline.by_host) {
      return false;
    }
    all += timeline.calls.size() + timeline.work.size();
  }
  return all <= kMostReplayed;
}

void add_gains(const Profile& profile, std::vector<Finding>& findings) {
  std::vector<std::pair<Finding*, Removal>> removals;
  for (Finding& finding : findings) {
    Removal removal = removal_of(profile, finding);
    if (!is_empty(removal)) {
      removals.emplace_back(&finding, std::move(removal));
    }
  }
  if (removals.empty() || !can_replay(profile)) {
    return;
  }
  const ReplayGraph graph = replay_graph(profile);
  const bool reaches_others = knows_who_waits(graph, profile);
  for (const auto& [finding, removal] : removals) {
    // What one rank delays others by is gained where they wait: without that, nothing is said.
    if (reaches_others || (removal.late_ranks.empty() && removal.faster.empty())) {
      add_gain(profile, replayed_times(graph, profile, removal), *finding);
    }
  }
}

namespace {

// Of one cause, on all GPUs that lose time to it: what each gains where all are rid of it is what a
// finding says, too.
void add_cause(const ReplayGraph& graph, const Profile& profile, const char* cause,
               const Removal& removal, const std::function<int64_t(const DeviceProfile&)>& lost,
               std::vector<CauseGain>& gains) {
  const bool is_there = std::any_of(profile.devices.begin(), profile.devices.end(),
                                    [&](const DeviceProfile& each) { return lost(each) != 0; });
  if (!is_there) {
    return;
  }
  const std::vector<ReplayedTime> times = replayed_times(graph, profile, removal);
  for (const DeviceProfile& device : profile.devices) {
    if (const int64_t ns = lost(device); ns != 0) {
      gains.push_back({device.index, cause, ns, times[device.index]});
    }
  }
}

}  // namespace

std::vector<CauseGain> gains_by_cause(const Profile& profile) {
  std::vector<CauseGain> gains;
  if (!can_replay(profile)) {
    return gains;
  }
  const ReplayGraph graph = replay_graph(profile);
  const std::vector<ReplayedTime> unchanged = replayed_times(graph, profile, {});
  Removal communication, copies;
  for (const DeviceProfile& device : profile.devices) {
    gains.push_back({device.index, "none", 0, unchanged[device.index]});
    communication.communication.push_back(device.index);
    copies.copies.push_back({device.index});
  }
  for (size_t cause = 0; cause < kIdleCauses; ++cause) {
    Removal removal;
    for (const DeviceProfile& device : profile.devices) {
      removal.idle.push_back({device.index, static_cast<IdleCause>(cause)});
    }
    add_cause(
        graph, profile, kIdleCauseNames[cause], removal,
        [cause](const DeviceProfile& device) { return device.whole_idle[cause]; }, gains);
  }
  const auto exposed = [](const DeviceProfile& device) {
    return device.whole.exposed_communication_ns;
  };
  add_cause(graph, profile, "communication", communication, exposed, gains);
  if (std::any_of(profile.devices.begin(), profile.devices.end(), exposed)) {
    const std::vector<ReplayedTime> in_time =
        replayed_times(graph, profile, {.late_ranks = all_ranks(profile)});
    for (const DeviceProfile& device : profile.devices) {
      if (exposed(device) != 0) {
        gains.push_back({device.index, "late-ranks", collective_times(profile, device).waited_ns,
                         in_time[device.index]});
      }
    }
  }
  add_cause(
      graph, profile, "copies", copies,
      [](const DeviceProfile& device) { return device.whole.exposed_memory_ns; }, gains);
  return gains;
}

}  // namespace traintrace
