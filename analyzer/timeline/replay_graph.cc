#include "analyzer/timeline/replay_graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/arrivals.h"
#include "analyzer/timeline/collective_groups.h"
#include "analyzer/timeline/collective_note.h"
#include "analyzer/timeline/messages.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace replay {
namespace {

// What ends and begins at one moment may overlap by so much: steps of GPUs' clocks, and rounding
// where times were brought to another clock.
constexpr int64_t kClockStepNs = 1'000;
// And by how much what took so long may be wrong where one clock runs faster than another.
int64_t clock_error_ns(int64_t ns) {
  return kClockStepNs + ns / 1'000'000 * kMostDriftPpb / 1'000;
}
// By how much clocks of host and GPU may disagree, and what waking up takes.
constexpr int64_t kAgreeNs = 20'000;
// What a launch and the next work of a stream take where something else was the reason for waiting.
constexpr int64_t kUsualLatencyNs = 3'000;
constexpr int64_t kUsualGapNs = 1'500;
constexpr size_t kLookBack = 64;

bool waits_for_device(std::string_view call) {
  return call.find("DeviceSynchronize") != call.npos || call.find("CtxSynchronize") != call.npos;
}

// Of one process.
class Builder {
 public:
  Builder(const Timeline& timeline, Process& process) : timeline_(timeline), process_(process) {}

  void build() {
    add_works();
    add_busy();
    add_calls();
    for (size_t work = 0; work < process_.works.size(); ++work) {
      find_before(work);
    }
  }

 private:
  using Stream = std::pair<int32_t, int32_t>;  // device, stream

  Stream stream_of(size_t work) const {
    return {timeline_.work[work].device, timeline_.work[work].stream};
  }
  int64_t end_of(size_t work) const { return process_.works[work].end_ns; }
  int64_t launched_ns(size_t work) const {
    const size_t launch = process_.works[work].launch;
    return launch == kNone ? process_.works[work].start_ns : process_.calls[launch].begin_ns;
  }

  // Whether the later could wait for the end of the earlier.
  bool may_be_before(size_t earlier, size_t later) const {
    const Work& work = process_.works[earlier];
    return work.end_ns <= added_within(process_.works[later].start_ns,
                                       clock_error_ns(work.end_ns - work.start_ns));
  }

  void add_works();
  void add_busy();
  void add_calls();
  void add_launched(const HostCall& recorded, const std::vector<size_t>& works);
  void find_awaited(const HostCall& recorded, Call& call);
  std::optional<size_t> last_ended(int32_t device, int64_t from_ns, int64_t to_ns,
                                   int64_t launched_by_ns) const;
  void find_before(size_t index);
  void add_told_waits(size_t work);
  std::optional<size_t> guessed_before(size_t work, int64_t known_ns) const;

  const Timeline& timeline_;
  Process& process_;
  std::unordered_map<uint64_t, std::vector<size_t>> works_of_;  // by correlation
  std::map<int32_t, std::vector<size_t>> by_end_;               // by device
  // Launched by the calls so far: the last to end of each stream, the last stream of each thread.
  std::map<Stream, size_t> last_on_;
  std::vector<std::optional<Stream>> last_by_;
  // Of the works so far: the last of each stream, the last to end of each launch.
  std::map<Stream, size_t> before_on_;
  std::unordered_map<uint64_t, size_t> before_of_;
};

void Builder::add_works() {
  for (size_t i = 0; i < timeline_.work.size(); ++i) {
    const GpuWork& work = timeline_.work[i];
    process_.works.push_back({work.start_ns, std::max(work.start_ns, work.end_ns)});
    process_.works.back().kind = work.kind;
    by_end_[work.device].push_back(i);
    if (work.correlation != 0) {
      works_of_[work.correlation].push_back(i);
    }
  }
  for (auto& [device, works] : by_end_) {
    std::stable_sort(works.begin(), works.end(),
                     [&](size_t a, size_t b) { return end_of(a) < end_of(b); });
  }
}

void Builder::add_busy() {
  const size_t threads = timeline_.threads.size();
  std::vector<std::array<std::vector<Span>, 3>> busy(threads);
  for (const HostCall& call : timeline_.calls) {
    if (call.kind >= HostCallKind::kAllocator) {
      const size_t kind = call.kind == HostCallKind::kLoader      ? 0
                          : call.kind == HostCallKind::kAllocator ? 1
                                                                  : 2;
      busy[call.thread][kind].push_back({call.start_ns, call.end_ns});
    }
  }
  process_.busy.resize(threads);
  for (size_t thread = 0; thread < threads; ++thread) {
    for (size_t kind = 0; kind < busy[thread].size(); ++kind) {
      process_.busy[thread][kind] = united(std::move(busy[thread][kind]));
    }
  }
}

void Builder::add_launched(const HostCall& recorded, const std::vector<size_t>& works) {
  for (const size_t work : works) {
    if (process_.works[work].launch == kNone) {
      process_.works[work].launch = process_.calls.size();
    }
    size_t& last = last_on_.try_emplace(stream_of(work), work).first->second;
    last = end_of(work) >= end_of(last) ? work : last;
    last_by_[recorded.thread] = stream_of(work);
  }
}

void Builder::add_calls() {
  last_by_.resize(timeline_.threads.size());
  process_.blocking.resize(timeline_.threads.size());
  for (const HostCall& recorded : timeline_.calls) {
    const auto works =
        recorded.correlation == 0 ? works_of_.end() : works_of_.find(recorded.correlation);
    const bool blocks = recorded.kind == HostCallKind::kBlocking;
    if (works == works_of_.end() && !blocks) {
      continue;
    }
    Call call{recorded.start_ns,
              std::max(recorded.start_ns, recorded.end_ns),
              recorded.thread,
              blocks,
              {}};
    if (works != works_of_.end()) {
      add_launched(recorded, works->second);
    }
    if (blocks) {
      find_awaited(recorded, call);
      process_.blocking[call.thread].push_back(process_.calls.size());
    }
    process_.calls.push_back(call);
  }
  for (std::vector<size_t>& calls : process_.blocking) {
    std::stable_sort(calls.begin(), calls.end(), [&](size_t a, size_t b) {
      return process_.calls[a].end_ns < process_.calls[b].end_ns;
    });
  }
}

// The last work of the device to end in [from, to] that had been launched by then.
std::optional<size_t> Builder::last_ended(int32_t device, int64_t from_ns, int64_t to_ns,
                                          int64_t launched_by_ns) const {
  const auto works = by_end_.find(device);
  if (works == by_end_.end()) {
    return std::nullopt;
  }
  auto at = std::upper_bound(works->second.begin(), works->second.end(), to_ns,
                             [&](int64_t time, size_t work) { return time < end_of(work); });
  for (size_t looked = 0; at != works->second.begin() && looked < kLookBack; ++looked) {
    --at;
    if (end_of(*at) < from_ns) {
      return std::nullopt;
    }
    if (launched_ns(*at) <= launched_by_ns) {
      return *at;
    }
  }
  return std::nullopt;
}

// What the call waited for: its own copy, all of the device, else the stream on which its thread
// launched last.  Where that does not fit, the work with whose end it returned.
void Builder::find_awaited(const HostCall& recorded, Call& call) {
  call.awaited = {process_.works_awaited.size(), process_.works_awaited.size()};
  std::vector<size_t> awaited;
  const std::optional<Stream> stream = last_by_[recorded.thread];
  const auto own =
      recorded.correlation == 0 ? works_of_.end() : works_of_.find(recorded.correlation);
  if (own != works_of_.end()) {
    awaited = own->second;
  } else if (waits_for_device(timeline_.names[recorded.name])) {
    for (const auto& [each, work] : last_on_) {
      if (!stream || each.first == stream->first) {
        awaited.push_back(work);
      }
    }
  } else if (stream) {
    awaited.push_back(last_on_.at(*stream));
  }
  std::erase_if(awaited, [&](size_t work) { return end_of(work) > call.end_ns + kAgreeNs; });
  int64_t latest = std::numeric_limits<int64_t>::min();
  for (const size_t work : awaited) {
    latest = std::max(latest, end_of(work));
  }
  if (latest < call.end_ns - kAgreeNs && call.end_ns - call.begin_ns > kAgreeNs) {
    const int32_t device = stream ? stream->first : std::max<int32_t>(recorded.device, 0);
    if (const auto work = last_ended(device, std::max(call.begin_ns, call.end_ns - kAgreeNs),
                                     call.end_ns + kAgreeNs, call.begin_ns)) {
      awaited.push_back(*work);
    }
  }
  // A small copy from pageable memory returns once it is staged.
  std::erase_if(awaited, [&](size_t work) { return process_.works[work].start_ns >= call.end_ns; });
  process_.works_awaited.insert(process_.works_awaited.end(), awaited.begin(), awaited.end());
  call.awaited.end = process_.works_awaited.size();
}

void Builder::add_told_waits(size_t work) {
  const uint64_t correlation = timeline_.work[work].correlation;
  const auto first =
      std::lower_bound(timeline_.waits.begin(), timeline_.waits.end(), WorkWait{correlation, 0});
  for (auto wait = first; wait != timeline_.waits.end() && wait->correlation == correlation;
       ++wait) {
    const auto before = works_of_.find(wait->before);
    if (before == works_of_.end()) {
      continue;
    }
    for (const size_t each : before->second) {
      if (may_be_before(each, work)) {
        process_.works_before.push_back(each);
      }
    }
  }
}

// Of another stream, where the end of nothing known explains when it began.
std::optional<size_t> Builder::guessed_before(size_t work, int64_t known_ns) const {
  const int64_t start = process_.works[work].start_ns;
  if (timeline_.knows_waits || elapsed(known_ns, start) <= kAgreeNs) {
    return std::nullopt;
  }
  return last_ended(timeline_.work[work].device, std::max(known_ns, start - kAgreeNs), start,
                    start);
}

void Builder::find_before(size_t index) {
  Work& work = process_.works[index];
  const uint64_t correlation = timeline_.work[index].correlation;
  work.before.begin = process_.works_before.size();
  if (const auto last = before_on_.find(stream_of(index));
      last != before_on_.end() && may_be_before(last->second, index)) {
    process_.works_before.push_back(last->second);
  }
  before_on_[stream_of(index)] = index;
  bool within_graph = false;
  if (correlation != 0) {
    add_told_waits(index);
    const auto [last, is_first] = before_of_.try_emplace(correlation, index);
    if (!is_first && may_be_before(last->second, index)) {
      process_.works_before.push_back(last->second);
      within_graph = true;
    }
    last->second = end_of(index) >= end_of(last->second) ? index : last->second;
  }
  int64_t ready = std::numeric_limits<int64_t>::min();
  for (size_t i = work.before.begin; i < process_.works_before.size(); ++i) {
    ready = std::max(ready, end_of(process_.works_before[i]));
  }
  const bool launched = work.launch != kNone && !within_graph;
  const int64_t begun = launched ? process_.calls[work.launch].begin_ns : 0;
  // A call that blocks returns only when its work is done.
  const bool blocks = launched && process_.calls[work.launch].blocks;
  const int64_t returned = !launched ? 0 : blocks ? begun : process_.calls[work.launch].end_ns;
  const bool by_launch = launched && returned > ready;
  const int64_t known = by_launch ? std::max(returned, ready) : ready;
  if (const auto guessed = guessed_before(index, known)) {
    process_.works_before.push_back(*guessed);
    ready = std::max(ready, end_of(*guessed));
  }
  work.before.end = process_.works_before.size();
  const bool still_by_launch = launched && returned > ready;
  work.latency_ns = !launched         ? 0
                    : still_by_launch ? work.start_ns - begun
                                      : std::min(kUsualLatencyNs, work.start_ns - begun);
  work.gap_ns = work.before.begin == work.before.end ? 0
                : still_by_launch                    ? std::min(kUsualGapNs, work.start_ns - ready)
                                                     : work.start_ns - ready;
}

void add_charges(const Profile& profile, ReplayGraph& graph) {
  for (const DeviceProfile& device : profile.devices) {
    const Timeline& timeline = profile.timelines[device.timeline];
    Process& process = graph.processes[device.timeline];
    std::vector<GpuWork> works;
    std::vector<size_t> places;
    for (size_t i = 0; i < timeline.work.size(); ++i) {
      if (timeline.work[i].device == device.device) {
        process.works[i].device = device.index;
        works.push_back(timeline.work[i]);
        places.push_back(i);
      }
    }
    visit_idle(timeline, works, [&](const IdleCharge& charge) {
      process.charges.push_back({device.index, charge.cause, charge.ns, charge.gap,
                                 places[static_cast<size_t>(charge.next - works.data())]});
    });
  }
}

// Whether the kernel is all that a rank ran for a collective, which took that long by a clock that
// may run faster or slower.
bool is_one_kernel(const Work& kernel, int64_t collective_ns) {
  const int64_t ns = kernel.end_ns - kernel.start_ns;
  return std::abs(ns - collective_ns) <= clock_error_ns(ns);
}

// Where all its ranks ran one kernel for it, and ends are known to belong together.
void add_meetings(const Profile& profile, ReplayGraph& graph) {
  std::vector<std::unordered_map<uint64_t, size_t>> kernels(profile.timelines.size());
  for (size_t i = 0; i < profile.timelines.size(); ++i) {
    for (size_t work = 0; work < profile.timelines[i].work.size(); ++work) {
      if (graph.processes[i].works[work].kind == WorkKind::kCommunication) {
        kernels[i].try_emplace(profile.timelines[i].work[work].correlation, work);
      }
    }
  }
  for (const Arrivals& arrivals : profile.groups) {
    if (!arrivals.usable() || arrivals.by_host) {
      continue;
    }
    for (const Arrival& arrival : arrivals.list) {
      std::vector<std::pair<size_t, size_t>> works;  // process, work
      for (size_t i = 0; i < arrivals.members.size(); ++i) {
        const size_t process = arrivals.members[i];
        const auto kernel = kernels[process].find(arrival.correlation[i]);
        if (kernel == kernels[process].end() || arrival.correlation[i] == 0) {
          break;
        }
        const Work& work = graph.processes[process].works[kernel->second];
        if (!is_one_kernel(work, arrival.end_ns[i] - arrival.start_ns[i]) ||
            work.meeting != kNone || arrival.last_start() > arrival.end_ns[i]) {
          break;  // several kernels, or clocks that cannot be right
        }
        works.emplace_back(process, kernel->second);
      }
      if (!arrival.is_known() || works.size() != arrivals.members.size()) {
        continue;
      }
      for (size_t i = 0; i < works.size(); ++i) {
        Process& process = graph.processes[works[i].first];
        Work& work = process.works[works[i].second];
        work.meeting = graph.meetings.size();
        work.member = i;
      }
      graph.meetings.push_back({arrival.start_ns, arrival.last_start()});
    }
  }
}

// Of the groups whose members are known and compared; those without a name are not told apart.
std::set<std::string_view> known_groups(const Profile& profile, size_t timeline) {
  std::set<std::string_view> names;
  for (const Arrivals& arrivals : profile.groups) {
    if (arrivals.usable() && !arrivals.group.empty() && arrivals.member(timeline)) {
      names.insert(arrivals.group);
    }
  }
  return names;
}

void add_unmet(const Profile& profile, ReplayGraph& graph) {
  for (size_t i = 0; i < graph.processes.size(); ++i) {
    const Timeline& timeline = profile.timelines[i];
    const std::set<std::string_view> known = known_groups(profile, i);
    const std::set<uint64_t> one_to_one = communicators_of_pairs(timeline);
    Process& process = graph.processes[i];
    for (size_t work = 0; work < process.works.size(); ++work) {
      const Work& kernel = process.works[work];
      if (kernel.kind != WorkKind::kCommunication || kernel.meeting != kNone) {
        continue;
      }
      const uint64_t correlation = timeline.work[work].correlation;
      const CollectiveNote* const note = collective_note(timeline, correlation);
      const bool of_group = note != nullptr && note->group != kNoName &&
                            known.contains(timeline.names[note->group]) &&
                            !is_message(timeline, *note) &&
                            !is_within(messages_of(timeline, correlation), one_to_one);
      if (!of_group) {
        process.unmet_ns = added_within(process.unmet_ns, kernel.end_ns - kernel.start_ns);
      }
    }
  }
}

void add_points(Process& process) {
  const auto add = [&](int64_t time_ns, size_t index, PointKind kind) {
    process.points.push_back({time_ns, static_cast<uint32_t>(index), kind});
  };
  for (size_t call = 0; call < process.calls.size(); ++call) {
    const Call& each = process.calls[call];
    add(each.begin_ns, call, PointKind::kCallBegin);
    if (each.blocks) {
      add(std::max(each.end_ns, each.begin_ns + 1), call, PointKind::kCallEnd);
    }
  }
  for (size_t work = 0; work < process.works.size(); ++work) {
    const Work& each = process.works[work];
    add(each.start_ns, work, PointKind::kWorkStart);
    add(each.end_ns, work,
        each.end_ns == each.start_ns ? PointKind::kEmptyEnd : PointKind::kWorkEnd);
  }
  std::sort(process.points.begin(), process.points.end(), [](const Point& a, const Point& b) {
    return std::tie(a.time_ns, a.kind, a.index) < std::tie(b.time_ns, b.kind, b.index);
  });
}

}  // namespace
}  // namespace replay

bool knows_who_waits(const ReplayGraph& graph, const Profile& profile) {
  return std::all_of(profile.devices.begin(), profile.devices.end(),
                     [&](const DeviceProfile& device) {
                       return device.share(graph.processes[device.timeline].unmet_ns) < kWarnShare;
                     });
}

ReplayGraph replay_graph(const Profile& profile) {
  ReplayGraph graph;
  graph.processes.resize(profile.timelines.size());
  for (size_t i = 0; i < profile.timelines.size(); ++i) {
    replay::Builder(profile.timelines[i], graph.processes[i]).build();
  }
  replay::add_meetings(profile, graph);
  replay::add_unmet(profile, graph);
  replay::add_charges(profile, graph);
  for (replay::Process& process : graph.processes) {
    replay::add_points(process);
  }
  return graph;
}

}  // namespace traintrace
