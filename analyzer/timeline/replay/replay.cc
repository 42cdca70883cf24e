#include "analyzer/timeline/replay/replay.h"

#include <algorithm>
#include <optional>
#include <span>

#include "analyzer/timeline/replay/replay_changes.h"

namespace traintrace {
namespace replay {
namespace {

// What a call that need not wait takes; and from the end of what one waited for to its return.
constexpr int64_t kCallNs = 5'000;

int64_t length_of(const Process& process, const Changes& changes, size_t work) {
  const int64_t ns = process.works[work].end_ns - process.works[work].start_ns;
  return changes.shares.empty()
             ? ns
             : static_cast<int64_t>(static_cast<double>(ns) * changes.shares[work]);
}

bool is_by_legacy(const Process& process, size_t before) {
  return std::binary_search(process.before_by_legacy.begin(), process.before_by_legacy.end(),
                            before);
}

// A process while it is run again.
struct HostClock {
  Spans skipped;
  size_t next_skipped = 0;
  int64_t skipped_ns = 0;                 // by the time that was reached
  int64_t shift_ns = 0;                   // of the host, without what is skipped
  std::vector<int64_t> begin_ns;          // by call
  std::vector<int64_t> launches_before;   // by call that blocks: how many launches there had been
  std::vector<int64_t> start_ns, end_ns;  // by work
  std::vector<bool> started, ended;
  int64_t launches = 0;

  // When the host gets to what it did at that time, which never goes back.
  int64_t host_at(int64_t time_ns) {
    for (; next_skipped < skipped.size() && skipped[next_skipped].end_ns <= time_ns;
         ++next_skipped) {
      skipped_ns += skipped[next_skipped].end_ns - skipped[next_skipped].begin_ns;
    }
    const int64_t partly = next_skipped < skipped.size()
                               ? std::max<int64_t>(0, time_ns - skipped[next_skipped].begin_ns)
                               : 0;
    return time_ns + shift_ns - skipped_ns - partly;
  }
};

class Rerun {
 public:
  Rerun(const ReplayGraph& graph, std::vector<Changes> changes)
      : graph_(graph),
        changes_(std::move(changes)),
        clocks_(graph.processes.size()),
        meetings_(graph.meetings.size()),
        next_(graph.processes.size()) {
    for (size_t i = 0; i < clocks_.size(); ++i) {
      const Process& process = graph.processes[i];
      HostClock& clock = clocks_[i];
      clock.skipped = united(std::move(changes_[i].skipped));
      clock.begin_ns.resize(process.calls.size());
      clock.launches_before.resize(process.calls.size());
      clock.start_ns.resize(process.works.size());
      clock.end_ns.resize(process.works.size());
      clock.started.resize(process.works.size());
      clock.ended.resize(process.works.size());
      for (size_t work = 0; work < process.works.size(); ++work) {
        for (const Attendance& each : meetings_of(i, work)) {
          meetings_[each.meeting].takes_no_time |= changes_[i].takes_no_time[work];
        }
      }
    }
  }

  void go() {
    for (size_t i = 0; i < clocks_.size(); ++i) {
      may_go_on_.push_back(i);
    }
    do {
      while (!may_go_on_.empty()) {
        const size_t process = may_go_on_.back();
        may_go_on_.pop_back();
        go_on(process);
      }
    } while (give_up_a_meeting());
  }
  std::vector<ReplayedTime> times(const std::vector<DeviceProfile>& devices) const;

 private:
  struct Met {
    size_t came = 0;
    int64_t last_ns = std::numeric_limits<int64_t>::min();
    bool takes_no_time = false;     // once all have come
    bool given_up = false;          // members that came do not wait for the others
    std::vector<size_t> held = {};  // processes that can only go on when all have come
  };

  // As far as it gets without those that its next point waits for.
  void go_on(size_t process);
  void do_point(size_t process, const Point& point);
  // Of one that processes are held by: recorded times are wrong, or each waits for another.  False:
  // none is held.
  bool give_up_a_meeting();
  // The meeting whose end is needed for it, and is not known yet.
  std::optional<size_t> meeting_needed(size_t process, const Point& point) const;
  std::optional<size_t> unknown_meeting(size_t process, size_t work) const;
  std::optional<size_t> unknown_meeting(size_t process, const std::vector<size_t>& works,
                                        Part part) const;
  std::span<const Attendance> meetings_of(size_t process, size_t work) const {
    const Process& recorded = graph_.processes[process];
    const Part part = recorded.works[work].meetings;
    return std::span(recorded.attendances).subspan(part.begin, part.end - part.begin);
  }
  bool is_complete(size_t meeting) const {
    return meetings_[meeting].came == graph_.meetings[meeting].start_ns.size();
  }

  void begin_call(size_t process, size_t index) {
    HostClock& clock = clocks_[process];
    const Call& call = graph_.processes[process].calls[index];
    clock.begin_ns[index] = clock.host_at(call.begin_ns);
    clock.launches_before[index] = clock.launches;
    clock.launches += call.blocks ? 0 : 1;
  }
  void end_call(size_t process, size_t index);
  void start_work(size_t process, size_t index);
  // None: it waits in none.
  std::optional<int64_t> end_of_meetings(size_t process, size_t index) const;
  // Of one that has started; else as recorded.
  int64_t end_of(size_t process, size_t index) const;

  const ReplayGraph& graph_;
  std::vector<Changes> changes_;
  std::vector<HostClock> clocks_;
  std::vector<Met> meetings_;
  std::vector<size_t> next_;  // by process, in its points
  std::vector<size_t> may_go_on_;
};

void Rerun::go_on(size_t process) {
  const std::vector<Point>& points = graph_.processes[process].points;
  for (; next_[process] < points.size(); ++next_[process]) {
    if (const auto meeting = meeting_needed(process, points[next_[process]])) {
      meetings_[*meeting].held.push_back(process);
      return;
    }
    do_point(process, points[next_[process]]);
  }
}

void Rerun::do_point(size_t process, const Point& point) {
  switch (point.kind) {
    case PointKind::kCallBegin:
      return begin_call(process, point.index);
    case PointKind::kCallEnd:
      return end_call(process, point.index);
    case PointKind::kWorkStart:
      return start_work(process, point.index);
    default:
      clocks_[process].end_ns[point.index] = end_of(process, point.index);
      clocks_[process].ended[point.index] = true;
  }
}

bool Rerun::give_up_a_meeting() {
  for (size_t process = 0; process < next_.size(); ++process) {
    const std::vector<Point>& points = graph_.processes[process].points;
    if (next_[process] < points.size()) {
      Met& met = meetings_[*meeting_needed(process, points[next_[process]])];
      met.given_up = true;
      may_go_on_ = std::move(met.held);
      return true;
    }
  }
  return false;
}

std::optional<size_t> Rerun::unknown_meeting(size_t process, size_t work) const {
  const HostClock& clock = clocks_[process];
  if (!clock.started[work] || clock.ended[work]) {
    return std::nullopt;
  }
  for (const Attendance& each : meetings_of(process, work)) {
    if (each.waits && !meetings_[each.meeting].given_up && !is_complete(each.meeting)) {
      return each.meeting;
    }
  }
  return std::nullopt;
}

std::optional<size_t> Rerun::unknown_meeting(size_t process, const std::vector<size_t>& works,
                                             Part part) const {
  for (size_t i = part.begin; i < part.end; ++i) {
    if (const auto meeting = unknown_meeting(process, works[i])) {
      return meeting;
    }
  }
  return std::nullopt;
}

std::optional<size_t> Rerun::meeting_needed(size_t process, const Point& point) const {
  const Process& recorded = graph_.processes[process];
  switch (point.kind) {
    case PointKind::kCallBegin:
      return std::nullopt;
    case PointKind::kCallEnd:
      return unknown_meeting(process, recorded.works_awaited, recorded.calls[point.index].awaited);
    case PointKind::kWorkStart:
      return unknown_meeting(process, recorded.works_before, recorded.works[point.index].before);
    default:
      return unknown_meeting(process, point.index);
  }
}

// Meetings have clocks of their own: times are brought to that of the process by when the work
// itself came to them.  What its end is later than the last meeting's is its own.
std::optional<int64_t> Rerun::end_of_meetings(size_t process, size_t index) const {
  const Work& work = graph_.processes[process].works[index];
  std::optional<int64_t> recorded, now;
  bool takes_no_time = false;
  for (const Attendance& each : meetings_of(process, index)) {
    if (!each.waits || !is_complete(each.meeting)) {
      continue;
    }
    const Meeting& meeting = graph_.meetings[each.meeting];
    const Met& met = meetings_[each.meeting];
    const int64_t to_own_clock = work.start_ns - meeting.start_ns[each.member];
    const int64_t transfer_ns = met.takes_no_time ? 0 : meeting.transfer_ns;
    recorded = std::max(recorded.value_or(std::numeric_limits<int64_t>::min()),
                        meeting.last_start_ns + meeting.transfer_ns + to_own_clock);
    now = std::max(now.value_or(std::numeric_limits<int64_t>::min()),
                   met.last_ns + transfer_ns + to_own_clock);
    takes_no_time = takes_no_time || met.takes_no_time;
  }
  return !now || takes_no_time ? now : std::optional(*now + work.end_ns - *recorded);
}

int64_t Rerun::end_of(size_t index_of_process, size_t index) const {
  const HostClock& clock = clocks_[index_of_process];
  if (clock.ended[index] || !clock.started[index]) {
    return clock.ended[index] ? clock.end_ns[index]
                              : graph_.processes[index_of_process].works[index].end_ns;
  }
  const int64_t start = clock.start_ns[index];
  if (const std::optional<int64_t> end = end_of_meetings(index_of_process, index)) {
    return std::max(start, *end);
  }
  return changes_[index_of_process].takes_no_time[index]
             ? start
             : start +
                   length_of(graph_.processes[index_of_process], changes_[index_of_process], index);
}

void Rerun::end_call(size_t index_of_process, size_t index) {
  const Process& process = graph_.processes[index_of_process];
  HostClock& clock = clocks_[index_of_process];
  const Call& call = process.calls[index];
  if (clock.launches != clock.launches_before[index]) {
    return;  // other threads went on meanwhile: theirs is the time of the host
  }
  int64_t latest = std::numeric_limits<int64_t>::min();  // as recorded
  int64_t until = latest;                                // now
  for (size_t i = call.awaited.begin; i < call.awaited.end; ++i) {
    const size_t work = process.works_awaited[i];
    latest = std::max(latest, process.works[work].end_ns);
    until = std::max(until, end_of(index_of_process, work));
  }
  const int64_t recorded = call.end_ns - call.begin_ns;
  const bool waited = latest > call.begin_ns;
  const int64_t begun = clock.begin_ns[index];
  const bool is_free = changes_[index_of_process].free_calls[index];
  int64_t returned = begun + (waited || is_free ? std::min(recorded, kCallNs) : recorded);
  if (!is_free && call.awaited.begin != call.awaited.end) {
    const int64_t wake = call.end_ns - latest;
    returned = std::max(returned, until + (waited ? wake : std::min(wake, kCallNs)));
  }
  const int64_t now = clock.host_at(call.end_ns);
  clock.shift_ns += returned - now;
}

void Rerun::start_work(size_t index_of_process, size_t index) {
  const Process& process = graph_.processes[index_of_process];
  const Changes& changes = changes_[index_of_process];
  HostClock& clock = clocks_[index_of_process];
  const Work& work = process.works[index];
  int64_t start = std::numeric_limits<int64_t>::min();
  if (work.launch != kNone) {
    // Where the clocks of host and GPU disagree it is launched after it began.
    const int64_t begun =
        process.calls[work.launch].begin_ns <= work.start_ns
            ? clock.begin_ns[work.launch]
            : clock.host_at(work.start_ns) + process.calls[work.launch].begin_ns - work.start_ns;
    start = begun + work.latency_ns -
            std::min(std::max<int64_t>(0, work.latency_ns), changes.sooner_ns[index]);
  }
  const int64_t gap = work.gap_ns - std::min(work.gap_ns, changes.closer_ns[index]);
  for (size_t i = work.before.begin; i < work.before.end; ++i) {
    const size_t before = process.works_before[i];
    if (changes.ignores_legacy[index] && is_by_legacy(process, i)) {
      continue;
    }
    start = std::max(start, end_of(index_of_process, before) +
                                std::min(gap, work.start_ns - process.works[before].end_ns));
  }
  if (start == std::numeric_limits<int64_t>::min()) {
    start = clock.host_at(work.start_ns);
  }
  clock.start_ns[index] = start;
  clock.started[index] = true;
  for (const Attendance& each : meetings_of(index_of_process, index)) {
    Met& met = meetings_[each.meeting];
    ++met.came;
    met.last_ns = std::max(
        met.last_ns, graph_.meetings[each.meeting].start_ns[each.member] + start - work.start_ns);
    if (is_complete(each.meeting)) {
      may_go_on_.insert(may_go_on_.end(), met.held.begin(), met.held.end());
      met.held.clear();
    }
  }
}

std::vector<ReplayedTime> Rerun::times(const std::vector<DeviceProfile>& devices) const {
  std::vector<std::optional<Span>> windows(devices.size());
  // Where the first work of the loop began, in the recording and now.
  std::vector<std::optional<int64_t>> recorded(devices.size()), replayed(devices.size());
  const auto note = [](std::optional<int64_t>& first, int64_t time) {
    first = std::min(first.value_or(time), time);
  };
  for (size_t i = 0; i < clocks_.size(); ++i) {
    for (size_t work = 0; work < clocks_[i].start_ns.size(); ++work) {
      const size_t device = graph_.processes[i].works[work].device;
      const Span span = {clocks_[i].start_ns[work], clocks_[i].end_ns[work]};
      if (device != kNone) {
        std::optional<Span>& window = windows[device];
        window = window ? Span{std::min(window->begin_ns, span.begin_ns),
                               std::max(window->end_ns, span.end_ns)}
                        : span;
        if (const int64_t start = graph_.processes[i].works[work].start_ns;
            start >= devices[device].loop.begin_ns) {
          note(recorded[device], start);
          note(replayed[device], span.begin_ns);
        }
      }
    }
  }
  std::vector<ReplayedTime> times(devices.size());
  for (size_t i = 0; i < devices.size(); ++i) {
    if (windows[i]) {
      times[i] = {windows[i]->end_ns - windows[i]->begin_ns, 0};
    }
    if (replayed[i]) {
      const int64_t until_first = *recorded[i] - devices[i].loop.begin_ns;
      times[i].loop_ns = until_first + windows[i]->end_ns - *replayed[i];
    }
  }
  return times;
}

}  // namespace
}  // namespace replay

std::vector<ReplayedTime> replayed_times(const ReplayGraph& graph, const Profile& profile,
                                         const Removal& removal) {
  replay::Rerun rerun(graph, replay::changes_of(graph, profile, removal));
  rerun.go();
  return rerun.times(profile.devices);
}

}  // namespace traintrace
