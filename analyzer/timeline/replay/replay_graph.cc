#include "analyzer/timeline/replay/replay_graph.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/replay/replay_meetings.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace replay {
namespace {

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
    find_all_before();
    if (find_habits()) {
      find_all_before();
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
  bool waits_for_room(const HostCall& recorded, const std::vector<size_t>& works) const;
  void find_room(const std::vector<size_t>& works, Call& call);
  void find_awaited(const HostCall& recorded, Call& call);
  std::vector<size_t> told_awaited(const HostCall& recorded) const;
  std::optional<size_t> last_ended(int32_t device, Span ended, int64_t launched_by_ns,
                                   int64_t begun_before_ns) const;
  void find_all_before();
  void find_before(size_t index);
  bool find_habits();
  void add_told_waits(size_t work);
  std::optional<size_t> guessed_before(size_t work, int64_t known_ns) const;
  void visit_turns(const std::function<void(size_t work, size_t before)>& visit) const;

  const Timeline& timeline_;
  Process& process_;
  std::unordered_map<uint64_t, std::vector<size_t>> works_of_;  // by correlation
  std::map<int32_t, std::vector<size_t>> by_end_;               // by device
  // Launched by the calls so far: the last to end of each stream, the last stream of each thread.
  std::map<Stream, size_t> last_on_;
  std::vector<std::optional<Stream>> last_by_;
  // How many works, by device: launched by the calls so far, or by none that was recorded.
  std::map<int32_t, size_t> launched_;
  // Of the works so far: the last of each stream, the last to end of each launch.
  std::map<Stream, size_t> before_on_;
  std::unordered_map<uint64_t, size_t> before_of_;
  // By work: what it waits for as far as can be guessed; by habit.
  std::unordered_map<size_t, size_t> guessed_;
  std::unordered_multimap<size_t, size_t> habits_;
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
    ++launched_[timeline_.work[work].device];
  }
}

// Whether a launch, not added yet, takes long because the GPU has as much as it can queue.
bool Builder::waits_for_room(const HostCall& recorded, const std::vector<size_t>& works) const {
  const int32_t device = timeline_.work[works.front()].device;
  const auto launched = launched_.find(device);
  if (recorded.kind != HostCallKind::kOther || recorded.end_ns - recorded.start_ns < kQueueFullNs ||
      launched == launched_.end()) {
    return false;
  }
  const std::vector<size_t>& ended = by_end_.at(device);
  const auto done =
      std::upper_bound(ended.begin(), ended.end(), recorded.start_ns,
                       [&](int64_t time, size_t work) { return time < end_of(work); }) -
      ended.begin();
  return launched->second >= static_cast<size_t>(done) + kQueueFull;
}

// What had to end before there was room.
void Builder::find_room(const std::vector<size_t>& works, Call& call) {
  const Span returned = {std::max(call.begin_ns, call.end_ns - kAgreeNs), call.end_ns + kAgreeNs};
  call.awaited = {process_.works_awaited.size(), process_.works_awaited.size()};
  if (const auto work =
          last_ended(timeline_.work[works.front()].device, returned, call.begin_ns, call.end_ns)) {
    call.blocks = true;
    process_.works_awaited.push_back(*work);
    call.awaited.end = process_.works_awaited.size();
  }
}

void Builder::add_calls() {
  std::unordered_set<uint64_t> recorded_launches;
  for (const HostCall& call : timeline_.calls) {
    recorded_launches.insert(call.correlation);
  }
  for (const GpuWork& work : timeline_.work) {
    launched_[work.device] +=
        work.correlation == 0 || !recorded_launches.contains(work.correlation) ? 1 : 0;
  }
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
      if (waits_for_room(recorded, works->second)) {
        find_room(works->second, call);
      }
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

// The last work of the device to end in a time, the end of that included, which had been launched
// and begun by then.
std::optional<size_t> Builder::last_ended(int32_t device, Span ended, int64_t launched_by_ns,
                                          int64_t begun_before_ns) const {
  const auto works = by_end_.find(device);
  if (works == by_end_.end()) {
    return std::nullopt;
  }
  auto at = std::upper_bound(works->second.begin(), works->second.end(), ended.end_ns,
                             [&](int64_t time, size_t work) { return time < end_of(work); });
  for (size_t looked = 0; at != works->second.begin() && looked < kLookBack; ++looked) {
    --at;
    if (end_of(*at) < ended.begin_ns) {
      return std::nullopt;
    }
    if (launched_ns(*at) <= launched_by_ns && process_.works[*at].start_ns < begun_before_ns) {
      return *at;
    }
  }
  return std::nullopt;
}

// As the calls say it; empty: they do not.
std::vector<size_t> Builder::told_awaited(const HostCall& recorded) const {
  std::vector<size_t> awaited;
  const std::vector<CallWait>& waits = timeline_.call_waits;
  for (auto wait = std::lower_bound(waits.begin(), waits.end(),
                                    CallWait{recorded.start_ns, recorded.thread, 0});
       wait != waits.end() && wait->call_ns == recorded.start_ns && wait->thread == recorded.thread;
       ++wait) {
    if (const auto works = works_of_.find(wait->before); works != works_of_.end()) {
      awaited.insert(awaited.end(), works->second.begin(), works->second.end());
    }
  }
  return awaited;
}

// What the call waited for: what is told, its own copy, all of the device, else the stream on which
// its thread launched last.  Where that does not fit, the work with whose end it returned.
void Builder::find_awaited(const HostCall& recorded, Call& call) {
  call.awaited = {process_.works_awaited.size(), process_.works_awaited.size()};
  std::vector<size_t> awaited = told_awaited(recorded);
  const bool is_told = !awaited.empty();
  const std::optional<Stream> stream = last_by_[recorded.thread];
  const auto own =
      recorded.correlation == 0 ? works_of_.end() : works_of_.find(recorded.correlation);
  if (is_told) {
    // nothing to guess
  } else if (own != works_of_.end()) {
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
  if (!is_told && latest < call.end_ns - kAgreeNs && call.end_ns - call.begin_ns > kAgreeNs) {
    const int32_t device = stream ? stream->first : std::max<int32_t>(recorded.device, 0);
    const Span returned = {std::max(call.begin_ns, call.end_ns - kAgreeNs), call.end_ns + kAgreeNs};
    if (const auto work = last_ended(device, returned, call.begin_ns, returned.end_ns)) {
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
        if (wait->by_legacy) {
          process_.before_by_legacy.push_back(process_.works_before.size());
        }
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
  return last_ended(timeline_.work[work].device,
                    {std::max(known_ns, start - kAgreeNs), start + kClockStepNs}, start, start);
}

void Builder::find_all_before() {
  process_.works_before.clear();
  process_.before_by_legacy.clear();
  before_on_.clear();
  before_of_.clear();
  guessed_.clear();
  for (size_t work = 0; work < process_.works.size(); ++work) {
    find_before(work);
  }
}

// In the order of the launches: work, and what other streams had been given since it was last the
// turn of its own.
void Builder::visit_turns(const std::function<void(size_t work, size_t before)>& visit) const {
  std::vector<std::pair<size_t, size_t>> launched;
  for (size_t work = 0; work < process_.works.size(); ++work) {
    if (process_.works[work].launch != kNone) {
      launched.emplace_back(process_.works[work].launch, work);
    }
  }
  std::sort(launched.begin(), launched.end());
  std::map<Stream, size_t> turns;  // of each the last, in `launched`
  for (size_t i = 0; i < launched.size(); ++i) {
    size_t& turn = turns.try_emplace(stream_of(launched[i].second), 0).first->second;
    turn = std::max(turn, i - std::min(kLookBack, i));
    for (; turn < i; ++turn) {
      visit(launched[i].second, launched[turn].second);
    }
  }
}

// What is computed next begins when communication on another stream is done, again and again, and
// never sooner: it waits for that, also where something else kept it longer.  Communication, as
// frameworks do it, waits for what had been computed when it was launched, unless it ever begins
// sooner.
bool Builder::find_habits() {
  struct Habit {
    size_t waited = 0, turns = 0;
    bool always = true;
  };
  using Turn = std::tuple<Stream, Stream, uint32_t, uint16_t>;  // of work by its name and shape
  const auto is_communication = [&](size_t work) {
    return process_.works[work].kind == WorkKind::kCommunication;
  };
  const auto turn_of = [&](size_t work, size_t before) {
    return Turn(stream_of(before), stream_of(work), timeline_.work[work].name,
                timeline_.work[work].shape);
  };
  if (timeline_.knows_waits) {
    return false;
  }
  std::map<Turn, Habit> habits;
  visit_turns([&](size_t work, size_t before) {
    if (is_communication(work) != is_communication(before)) {
      Habit& habit = habits[turn_of(work, before)];
      const auto guessed = guessed_.find(work);
      habit.waited += guessed != guessed_.end() && guessed->second == before ? 1 : 0;
      ++habit.turns;
      habit.always = habit.always && may_be_before(before, work);
    }
  });
  visit_turns([&](size_t work, size_t before) {
    const auto habit = habits.find(turn_of(work, before));
    if (is_communication(work) != is_communication(before) && habit->second.always &&
        (is_communication(work) ? habit->second.turns : habit->second.waited) >= kFewestGaps) {
      habits_.emplace(work, before);
    }
  });
  return !habits_.empty();
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
  for (auto [habit, end] = habits_.equal_range(index); habit != end; ++habit) {
    process_.works_before.push_back(habit->second);
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
    guessed_[index] = *guessed;
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
      const Span call =
          charge.call == nullptr ? Span{} : Span{charge.call->start_ns, charge.call->end_ns};
      process.charges.push_back({device.index, charge.cause, charge.ns, charge.gap,
                                 places[static_cast<size_t>(charge.next - works.data())], call});
    });
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

ReplayGraph replay_graph(const Profile& profile) {
  ReplayGraph graph;
  graph.processes.resize(profile.timelines.size());
  for (size_t i = 0; i < profile.timelines.size(); ++i) {
    replay::Builder(profile.timelines[i], graph.processes[i]).build();
  }
  add_meetings(profile, graph);
  replay::add_charges(profile, graph);
  for (replay::Process& process : graph.processes) {
    replay::add_points(process);
  }
  return graph;
}

}  // namespace traintrace
