#include "analyzer/timeline/host_times.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

class Launches {
 public:
  explicit Launches(const Timeline& timeline) {
    for (const GpuWork& work : timeline.work) {
      correlations_.insert(work.correlation);
    }
  }
  bool has(const HostCall& call) const {
    return call.correlation != 0 && correlations_.contains(call.correlation);
  }

 private:
  std::unordered_set<uint64_t> correlations_;
};

// While a thread that launches is in calls of these kinds.
Spans times_in(const Timeline& timeline, const Launches& launches, bool (*is_of)(HostCallKind)) {
  std::vector<bool> launching(timeline.threads.size());
  for (const HostCall& call : timeline.calls) {
    launching[call.thread] = launching[call.thread] || launches.has(call);
  }
  std::vector<Span> spans;
  for (const HostCall& call : timeline.calls) {
    if (launching[call.thread] && is_of(call.kind)) {
      spans.push_back({call.start_ns, call.end_ns});
    }
  }
  return united(std::move(spans));
}

std::vector<Span> times_before_launches(const Timeline& timeline, const Launches& launches) {
  TimesBeforeLaunches times(timeline.threads.size());
  for (const HostCall& call : timeline.calls) {
    if (launches.has(call)) {
      times.launch(call.thread, call.start_ns);
    }
    if (call.kind == HostCallKind::kBlocking) {
      times.wait(call.thread, call.end_ns);
    }
  }
  return times.take();
}

// While something to compute or to copy had been launched and had not begun: then the host is
// ahead, whatever it does.
Spans launched_ahead(const Timeline& timeline, int device) {
  std::unordered_map<uint64_t, int64_t> launched;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      launched[call.correlation] = call.end_ns;
    }
  }
  std::vector<Span> ahead;
  for (const GpuWork& work : timeline.work) {
    const auto launch = launched.find(work.correlation);
    if (work.device == device && work.kind != WorkKind::kCommunication &&
        launch != launched.end() && launch->second < work.start_ns) {
      ahead.push_back({launch->second, work.start_ns});
    }
  }
  return united(std::move(ahead));
}

// Of these times, what nothing was computed or copied beside; of launching, nor waited to be: who
// is ahead launches all the time.  A loader takes as long whoever is ahead.
int64_t beside_nothing_ns(const Profile& profile, const DeviceProfile& device, HostTime kind) {
  const Timeline& timeline = profile.timelines[device.timeline];
  std::vector<Span> computing;
  for (const GpuWork& work : timeline.work) {
    if (work.device == device.device && work.kind != WorkKind::kCommunication) {
      computing.push_back({work.start_ns, work.end_ns});
    }
  }
  const Spans idle = difference(united(host_times(timeline, kind)), united(std::move(computing)));
  return length_ns(
      kind == HostTime::kLoader ? idle : difference(idle, launched_ahead(timeline, device.device)));
}

// All of it: a fast loader of a host that is ahead runs beside nothing, too.
int64_t loader_ns(const Profile& profile, const DeviceProfile& device, HostTime kind) {
  return kind == HostTime::kLoader
             ? length_ns(united(host_times(profile.timelines[device.timeline], kind)))
             : 0;
}

bool meet(const Profile& profile, const DeviceProfile& one, const std::vector<size_t>& others) {
  return std::any_of(profile.groups.begin(), profile.groups.end(), [&](const Arrivals& arrivals) {
    return arrivals.member(one.timeline) &&
           std::any_of(others.begin(), others.end(), [&](size_t other) {
             return arrivals.member(profile.devices[other].timeline).has_value();
           });
  });
}

}  // namespace

std::vector<Span> host_times(const Timeline& timeline, HostTime kind) {
  const Launches launches(timeline);
  if (kind == HostTime::kLoader) {
    return times_in(timeline, launches,
                    [](HostCallKind call) { return call == HostCallKind::kLoader; });
  }
  const Spans elsewhere = times_in(
      timeline, launches, [](HostCallKind call) { return call >= HostCallKind::kAllocator; });
  std::vector<Span> times;
  for (const Span& time : times_before_launches(timeline, launches)) {
    const Spans own = difference({time}, within(elsewhere, time));
    times.insert(times.end(), own.begin(), own.end());
  }
  return times;
}

int64_t median_lead(const Timeline& timeline, std::span<const GpuWork> work,
                    const std::function<bool(const GpuWork&)>& counts) {
  std::unordered_map<uint64_t, int64_t> launched;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      launched[call.correlation] = call.end_ns;
    }
  }
  std::vector<int64_t> leads;
  for (const GpuWork& each : work) {
    const auto launch = launched.find(each.correlation);
    if (launch != launched.end() && counts(each)) {
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

std::vector<const DeviceProfile*> alike(const Profile& profile, const std::vector<size_t>& losers,
                                        HostTime kind) {
  std::vector<const DeviceProfile*> found;
  std::vector<int64_t> idle, all;
  for (const size_t loser : losers) {
    idle.push_back(beside_nothing_ns(profile, profile.devices[loser], kind));
    all.push_back(loader_ns(profile, profile.devices[loser], kind));
  }
  if (losers.empty()) {
    return found;
  }
  const int64_t usual = upper_median(std::move(idle));
  const int64_t usual_loader = upper_median(std::move(all));
  for (const DeviceProfile& device : profile.devices) {
    const bool loses = std::find(losers.begin(), losers.end(), device.index) != losers.end();
    if (!loses && usual > 0 && meet(profile, device, losers) &&
        beside_nothing_ns(profile, device, kind) >= usual / kAlike &&
        loader_ns(profile, device, kind) >= usual_loader / kAlike) {
      found.push_back(&device);
    }
  }
  return found;
}

}  // namespace traintrace
