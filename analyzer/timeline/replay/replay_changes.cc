#include "analyzer/timeline/replay/replay_changes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/host_times.h"
#include "analyzer/timeline/replay/excess.h"

namespace traintrace::replay {
namespace {

class Changing {
 public:
  Changing(const ReplayGraph& graph, const Profile& profile, const Removal& removal)
      : graph_(graph), profile_(profile), removal_(removal), changes_(graph.processes.size()) {}

  std::vector<Changes> all() {
    for (size_t i = 0; i < changes_.size(); ++i) {
      const Process& process = graph_.processes[i];
      changes_[i].free_calls.resize(process.calls.size());
      changes_[i].sooner_ns.resize(process.works.size());
      changes_[i].closer_ns.resize(process.works.size());
      for (const Work& work : process.works) {
        const Removal::Copies* const copies = copies_with(work);
        changes_[i].takes_no_time.push_back(copies != nullptr || is_left_out(work));
        changes_[i].ignores_legacy.push_back(is_one_of(work.device, removal_.legacy));
        if (copies != nullptr && copies->unblocks && work.launch != kNone) {
          changes_[i].free_calls[work.launch] = true;
        }
      }
      for (const Charge& charge : process.charges) {
        if (is_left_out(charge)) {
          leave_out(process, charge, changes_[i]);
          note_longest(i, charge);
        }
      }
    }
    for (const Removal::Pieces& pieces : removal_.pieces) {
      for (const size_t work : pieces.work) {
        changes_[pieces.timeline].takes_no_time[work] = true;
      }
    }
    leave_out_slow_hosts();
    for (const size_t process : removal_.loaded_hosts) {
      leave_out_loading(process);
    }
    do_the_usual();
    for (const Removal::Faster& faster : removal_.faster) {
      compute_faster(faster);
    }
    return std::move(changes_);
  }

 private:
  static bool is_one_of(size_t device, const std::vector<size_t>& devices) {
    return std::find(devices.begin(), devices.end(), device) != devices.end();
  }
  bool is_left_out(const Charge& charge) const;
  bool is_left_out(const Work& work) const;
  const Removal::Copies* copies_with(const Work& work) const;
  static void leave_out(const Process& process, const Charge& charge, Changes& changes);
  static void leave_out_awaited(const Process& process, const Charge& charge, Changes& changes);
  // How long the host takes in what is left out, at most.
  void note_longest(size_t index_of_process, const Charge& charge);
  void leave_out_slow_hosts();
  // Also where the GPU is not idle for it: others may be, who wait for this rank.
  void leave_out_loading(size_t index_of_process);
  const std::vector<Span>& times_of(size_t process, HostTime kind);
  void do_the_usual();
  void compute_faster(const Removal::Faster& faster);
  void shorten(size_t process, size_t work, double share);

  const ReplayGraph& graph_;
  const Profile& profile_;
  const Removal& removal_;
  std::vector<Changes> changes_;
  std::map<HostTime, int64_t> longest_ns_;
  std::map<std::pair<size_t, HostTime>, std::vector<Span>> times_;  // by process
};

bool Changing::is_left_out(const Charge& charge) const {
  return std::any_of(removal_.idle.begin(), removal_.idle.end(), [&](const Removal::Idle& idle) {
    const int64_t until = charge.gap.end_ns;
    return idle.device == charge.device && idle.cause == charge.cause &&
           (idle.until_ns.empty() ||
            std::binary_search(idle.until_ns.begin(), idle.until_ns.end(), until));
  });
}

bool Changing::is_left_out(const Work& work) const {
  return work.kind == WorkKind::kCommunication && is_one_of(work.device, removal_.communication);
}

const Removal::Copies* Changing::copies_with(const Work& work) const {
  const auto found = std::find_if(
      removal_.copies.begin(), removal_.copies.end(), [&](const Removal::Copies& copies) {
        return work.kind == WorkKind::kMemory && copies.device == work.device &&
               (copies.end_ns.empty() ||
                std::binary_search(copies.end_ns.begin(), copies.end_ns.end(), work.end_ns));
      });
  return found == removal_.copies.end() ? nullptr : &*found;
}

// The copies or the communication on other GPUs that the gap was for.
void Changing::leave_out_awaited(const Process& process, const Charge& charge, Changes& changes) {
  constexpr int kMostHops = 64;
  const bool copies = charge.cause == IdleCause::kCopyWait;
  if (!copies && charge.cause != IdleCause::kCommunicationWait) {
    return;
  }
  size_t at = charge.next;
  for (int hop = 0; hop < kMostHops; ++hop) {
    const Part before = process.works[at].before;
    at = kNone;
    for (size_t i = before.begin; i < before.end; ++i) {
      const size_t work = process.works_before[i];
      at = at == kNone || process.works[work].end_ns > process.works[at].end_ns ? work : at;
    }
    if (at == kNone || process.works[at].end_ns <= charge.gap.begin_ns) {
      return;
    }
    const WorkKind kind = copies ? WorkKind::kMemory : WorkKind::kCommunication;
    if (process.works[at].device != charge.device && process.works[at].kind == kind) {
      changes.takes_no_time[at] = true;
    }
  }
}

void Changing::leave_out(const Process& process, const Charge& charge, Changes& changes) {
  const Work& next = process.works[charge.next];
  if (!is_hosts(charge.cause) && charge.cause != IdleCause::kHostPeerWait) {
    changes.closer_ns[charge.next] += charge.ns;
    return leave_out_awaited(process, charge, changes);
  }
  if (charge.cause == IdleCause::kLaunchLatency || next.launch == kNone) {
    changes.sooner_ns[charge.next] += charge.ns;
    return;
  }
  const Call& launch = process.calls[next.launch];
  const int64_t launched = std::clamp(launch.begin_ns, charge.gap.begin_ns, charge.gap.end_ns);
  const auto skip_calls = [&](size_t kind) {
    const Spans inside =
        common(process.busy[launch.thread][kind], {{charge.gap.begin_ns, launched}});
    for (const Span& span : process.busy[launch.thread][kind]) {
      if (common_ns(inside, {span}) > 0) {
        changes.skipped.push_back(span);
      }
    }
  };
  switch (charge.cause) {
    case IdleCause::kDataStarvation:
      return skip_calls(0);
    case IdleCause::kAllocator:
      changes.skipped.push_back(charge.call);
      return skip_calls(1);
    case IdleCause::kHostPeerWait:
      return skip_calls(2);
    case IdleCause::kSyncInduced:
      for (const size_t call : process.blocking[launch.thread]) {
        const int64_t returned = process.calls[call].end_ns;
        if (returned >= charge.gap.begin_ns && returned <= launched) {
          changes.free_calls[call] = true;
        }
      }
      return;
    case IdleCause::kHostBound:
      changes.skipped.push_back({launched - charge.ns, launched});
      return;
    default:  // inside the launch: what it launches begins after it
      changes.skipped.push_back({launched, launched + charge.ns});
      changes.sooner_ns[charge.next] += charge.ns;
  }
}

const std::vector<Span>& Changing::times_of(size_t process, HostTime kind) {
  const auto [times, is_new] = times_.try_emplace({process, kind});
  if (is_new) {
    times->second = host_times(profile_.timelines[process], kind);
  }
  return times->second;
}

void Changing::note_longest(size_t index_of_process, const Charge& charge) {
  const bool loader = charge.cause == IdleCause::kDataStarvation;
  if (removal_.slow_hosts.empty() || (!loader && charge.cause != IdleCause::kHostBound)) {
    return;
  }
  const HostTime kind = loader ? HostTime::kLoader : HostTime::kLaunching;
  const Process& process = graph_.processes[index_of_process];
  const size_t launch = process.works[charge.next].launch;
  if (launch == kNone) {
    return;
  }
  const std::vector<Span>& times = times_of(index_of_process, kind);
  auto at = std::upper_bound(times.begin(), times.end(), charge.gap.begin_ns,
                             [](int64_t time, const Span& span) { return time < span.end_ns; });
  for (; at != times.end() && at->begin_ns < process.calls[launch].begin_ns; ++at) {
    longest_ns_[kind] = std::max(longest_ns_[kind], at->end_ns - at->begin_ns);
  }
}

void Changing::leave_out_slow_hosts() {
  for (const auto& [kind, longest_ns] : longest_ns_) {
    for (const size_t process : removal_.slow_hosts) {
      for (const Span& span : times_of(process, kind)) {
        if (span.end_ns - span.begin_ns <= longest_ns) {
          changes_[process].skipped.push_back(span);
        }
      }
    }
  }
}

void Changing::leave_out_loading(size_t index_of_process) {
  const Process& process = graph_.processes[index_of_process];
  const std::vector<GpuWork>& works = profile_.timelines[index_of_process].work;
  std::map<uint32_t, size_t> first_uses;  // by name
  for (size_t i = 0; i < works.size(); ++i) {
    if (works[i].kind != WorkKind::kMemory && process.works[i].launch != kNone) {
      size_t& first = first_uses.try_emplace(works[i].name, i).first->second;
      first = works[i].start_ns < works[first].start_ns ? i : first;
    }
  }
  for (const auto& [name, work] : first_uses) {
    const Call& launch = process.calls[process.works[work].launch];
    if (const int64_t ns = launch.end_ns - launch.begin_ns; ns >= kLoadingNs && !launch.blocks) {
      changes_[index_of_process].skipped.push_back({launch.begin_ns, launch.end_ns});
      changes_[index_of_process].sooner_ns[work] += ns;
    }
  }
}

void Changing::do_the_usual() {
  const std::vector<Excess> all = excess_of(graph_, profile_, removal_.late_ranks);
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t process = removal_.late_ranks[i];
    std::vector<Span>& skipped = changes_[process].skipped;
    skipped.insert(skipped.end(), all[i].host.begin(), all[i].host.end());
    for (const auto& [work, share] : all[i].shares) {
      shorten(process, work, share);
    }
  }
}

void Changing::compute_faster(const Removal::Faster& faster) {
  const DeviceProfile& device = profile_.devices[faster.device];
  const Timeline& timeline = profile_.timelines[device.timeline];
  for (size_t work = 0; work < timeline.work.size(); ++work) {
    if (timeline.work[work].device == device.device &&
        timeline.work[work].kind == WorkKind::kCompute &&
        part_of_window(device, timeline.work[work].start_ns) == faster.part) {
      shorten(device.timeline, work, faster.share);
    }
  }
}

void Changing::shorten(size_t process, size_t work, double share) {
  if (share >= 1 || graph_.processes[process].works[work].kind == WorkKind::kCommunication) {
    return;
  }
  std::vector<float>& shares = changes_[process].shares;
  shares.resize(graph_.processes[process].works.size(), 1);
  shares[work] = std::min(shares[work], static_cast<float>(std::clamp(share, 0.0, 1.0)));
}

}  // namespace

std::vector<Changes> changes_of(const ReplayGraph& graph, const Profile& profile,
                                const Removal& removal) {
  return Changing(graph, profile, removal).all();
}

}  // namespace traintrace::replay
