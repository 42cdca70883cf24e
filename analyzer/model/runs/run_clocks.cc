#include "analyzer/model/runs/run_clocks.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/clock_offsets.h"
#include "analyzer/reader/host_clocks.h"
#include "analyzer/reader/move_times.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

TimeNs narrowed(WideNs value) {
  return static_cast<TimeNs>(std::clamp<WideNs>(value, -kNoCommonClock, kNoCommonClock));
}

// For each process the clock that its times are on, whatever that shows: all of one machine have
// the same where it is known that they do.
std::vector<std::string> clock_names(const Run& run) {
  std::vector<BootTold> told;
  for (const ProcessTrace& trace : run.processes) {
    told.push_back({trace.boot, boottime_of(trace), trace.booted_at_first, trace.booted});
  }
  const std::vector<size_t> clocks = one_clock(told);
  std::vector<std::string> names;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const ProcessTrace& trace = run.processes[i];
    names.push_back(trace.boot.empty() ? "host " + trace.host
                                       : "boot " + std::to_string(clocks[i]));
  }
  return names;
}

// Dumps do not say by which clock they are; nor can all times of an older trace be moved, as those
// of its events are read later.
bool can_be_moved(const ProcessTrace& trace) {
  return !is_flight_dump(trace) && (trace.booted != 0 || trace.boot.empty());
}

void list_clocks(const std::vector<std::string>& names, Run& run) {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const ProcessTrace& trace = run.processes[i];
    const auto [at, is_new] = known.try_emplace(names[i], run.clocks.size());
    if (is_new) {
      run.clocks.emplace_back().host = trace.host;
    }
    run.clock_of.push_back(at->second);
    RunClock& clock = run.clocks[at->second];
    ++clock.processes;
    clock.comparable = clock.comparable || is_flight_dump(trace);
    clock.movable = clock.movable && can_be_moved(trace);
  }
}

// The same machine, by its clock as it stood at one heartbeat or at another: times since it was
// started are the same, and the newest heartbeat tells when that was.
void unite_machines(const std::vector<std::string>& names, Run& run) {
  std::map<std::string, std::pair<TimeNs, TimeNs>> newest;  // by clock: uptime, booted
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const ProcessTrace& trace = run.processes[i];
    if (!trace.boot.empty() && trace.booted != 0) {
      const std::pair own(elapsed(trace.booted, trace.last_alive), trace.booted);
      auto& known = newest.try_emplace(names[i], own).first->second;
      known = std::max(known, own);
    }
  }
  for (size_t i = 0; i < run.processes.size(); ++i) {
    ProcessTrace& trace = run.processes[i];
    const auto found = newest.find(names[i]);
    if (trace.booted != 0 && found != newest.end() && found->second.second != trace.booted) {
      move_times(trace, elapsed(trace.booted, found->second.second));
    }
  }
}

class Moments {
 public:
  explicit Moments(const Run& run) {
    for (size_t process = 0; process < run.processes.size(); ++process) {
      const ProcessTrace& trace = run.processes[process];
      find_supposed(trace);
      for (const CommunicatorText& text : trace.communicators) {
        if (!is_flight_dump(trace) && text.id != 0 && text.size != 1) {
          add_creation(run.clock_of[process], text);
          add_collectives(run.clock_of[process], trace, text);
        }
      }
    }
  }

  // Seen on several clocks; the latest first, so that what was so long ago that clocks have drifted
  // or were set since does not count against it.
  std::vector<ClockSides> by_age() const {
    std::vector<std::pair<TimeNs, const ClockSides*>> order;
    for (const auto& [key, sides] : sides_) {
      TimeNs last = 0;
      for (const auto& [clock, side] : sides) {
        last = std::max({last, side.entered, side.over});
      }
      if (sides.size() > 1) {
        order.emplace_back(last, &sides);
      }
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<ClockSides> found;
    found.reserve(order.size());
    for (const auto& [last, sides] : order) {
      found.push_back(*sides);
    }
    return found;
  }

 private:
  // Communicator, sequence (0: its creation), function.
  using Key = std::tuple<uint64_t, uint64_t, std::string>;

  struct End {
    TimeNs over = 0;
    bool supposed = false;
  };

  void add(const Key& key, size_t clock, TimeNs entered, const End& end) {
    if (entered == 0) {
      return;
    }
    ClockSide& side = sides_[key][clock];
    side.entered = std::max(side.entered, entered);
    const bool is_earlier = end.over != 0 && (side.over == 0 || end.over < side.over);
    if (is_earlier || (end.over == side.over && !end.supposed)) {
      side.over = end.over;
      side.supposed = end.supposed;
    }
  }

  void add_creation(size_t clock, const CommunicatorText& text) {
    const bool ends_with_all = (text.flags & format::kNonBlocking) == 0;
    add({text.id, 0, ""}, clock, text.created, {ends_with_all ? text.ready : 0, false});
  }

  void add_collectives(size_t clock, const ProcessTrace& trace, const CommunicatorText& text) {
    constexpr uint8_t kNot =
        format::kCaptured | format::kFailed | format::kEmpty | format::kReplayed;
    for (const OperationText& operation : text.recent) {
      const std::string function = call_name(trace, operation.call);
      if (operation.collective && operation.sequence != 0 && (operation.flags & kNot) == 0 &&
          (text.flags & format::kAborted) == 0 && direction_of(function) == Direction::kAllToAll) {
        add({text.id, operation.sequence, function}, clock, operation.enter,
            seen_over(trace, operation));
      }
    }
  }

  static const StreamText* stream_of(const ProcessTrace& trace, const OperationText& operation) {
    const bool on_stream = operation.stream != 0 && operation.stream <= trace.streams.size() &&
                           operation.position != 0;
    return on_stream ? &trace.streams[operation.stream - 1] : nullptr;
  }

  // The streams of which only is supposed when all was over that is: the last of it says so once
  // its call returned.
  void find_supposed(const ProcessTrace& trace) {
    supposed_.clear();
    for (const CommunicatorText& text : trace.communicators) {
      for (const OperationText& operation : text.recent) {
        const StreamText* const stream = stream_of(trace, operation);
        if (stream != nullptr && stream->completed == operation.position &&
            stream->completed_time <= operation.leave) {
          supposed_.insert(stream);
        }
      }
    }
  }

  End seen_over(const ProcessTrace& trace, const OperationText& operation) const {
    if (operation.completed != 0) {
      return {operation.completed, operation.completed <= operation.leave};
    }
    const StreamText* const stream = stream_of(trace, operation);
    return stream != nullptr && stream->completed >= operation.position
               ? End{stream->completed_time, supposed_.contains(stream)}
               : End{};
  }

  std::set<const StreamText*> supposed_;
  std::map<Key, ClockSides> sides_;
};

size_t usual_clock(const Run& run) {
  const auto most = std::max_element(
      run.clocks.begin(), run.clocks.end(),
      [](const RunClock& a, const RunClock& b) { return a.processes < b.processes; });
  return static_cast<size_t>(most - run.clocks.begin());
}

void take_offsets(const ClockOffsets& offsets, size_t first, Run& run) {
  for (size_t i = 0; i < run.clocks.size(); ++i) {
    RunClock& clock = run.clocks[i];
    const std::optional<ClockBounds>& ahead = offsets.of(i);
    if (!ahead || offsets.is_contradicted(i) || (i != first && !clock.movable)) {
      continue;
    }
    const WideNs offset = likely_offset(*ahead);
    clock.comparable = true;
    clock.moved = narrowed(-offset);
    clock.error = narrowed(std::max(ahead->high - offset, offset - ahead->low));
    const TimeNs least = narrowed(ahead->low > 0 ? ahead->low : -ahead->high);
    if (least > kClockSkewTolerated) {
      const bool is_ahead = ahead->low > 0;
      run.skews.push_back({is_ahead ? run.clocks[first].host : clock.host,
                           is_ahead ? clock.host : run.clocks[first].host, least, clock.error});
    }
  }
}

bool is_supposed(const ClockSides& sides) {
  return std::any_of(sides.begin(), sides.end(),
                     [](const auto& side) { return side.second.supposed; });
}

// One clock shows that somebody entered it after it was over: it was not, when its calls returned.
bool is_refuted(const ClockSides& sides) {
  return std::any_of(sides.begin(), sides.end(), [](const auto& side) {
    return side.second.over != 0 && side.second.over < side.second.entered;
  });
}

// How much later its end was seen by the one clock than by the other; none: not by both.
std::optional<TimeNs> end_apart(const ClockSides& sides, size_t first, size_t clock) {
  const auto a = sides.find(first);
  const auto b = sides.find(clock);
  const bool both =
      a != sides.end() && b != sides.end() && a->second.over != 0 && b->second.over != 0;
  return both ? std::optional(elapsed(a->second.over, b->second.over)) : std::nullopt;
}

// Ends that are only supposed may be those of calls that waited for nobody: what is not as most of
// them are says nothing.
void leave_out_unlike_most(size_t first, size_t clocks, std::vector<ClockSides>& moments) {
  using Apart = std::pair<size_t, TimeNs>;  // the moment, and how far apart
  std::vector<std::vector<Apart>> apart_by_clock(clocks);
  for (size_t moment = 0; moment < moments.size(); ++moment) {
    for (const auto& [clock, side] : moments[moment]) {
      const auto ns = clock != first && is_supposed(moments[moment])
                          ? end_apart(moments[moment], first, clock)
                          : std::nullopt;
      if (ns) {
        apart_by_clock[clock].emplace_back(moment, *ns);
      }
    }
  }
  std::vector<bool> left_out(moments.size());
  for (std::vector<Apart>& all : apart_by_clock) {
    std::erase_if(all, [&](const Apart& one) { return left_out[one.first]; });
    if (all.empty()) {
      continue;
    }
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end(),
                     [](const Apart& a, const Apart& b) { return a.second < b.second; });
    const TimeNs usual = middle->second;
    for (const auto& [moment, ns] : all) {
      left_out[moment] = left_out[moment] ||
                         std::max(elapsed(usual, ns), elapsed(ns, usual)) > kClockSkewTolerated;
    }
  }
  size_t at = 0;
  std::erase_if(moments, [&](const ClockSides&) { return left_out[at++]; });
}

void align(Run& run) {
  std::vector<ClockSides> moments = Moments(run).by_age();
  std::erase_if(moments,
                [](const ClockSides& sides) { return is_supposed(sides) && is_refuted(sides); });
  leave_out_unlike_most(usual_clock(run), run.clocks.size(), moments);
  const size_t count = run.clocks.size();
  size_t first = usual_clock(run);
  ClockOffsets offsets = offsets_from(first, count, moments);
  if (const size_t median = median_clock(count, offsets); median != first) {
    first = median;
    offsets = offsets_from(first, count, moments);
  }
  take_offsets(offsets, first, run);
  for (size_t process = 0; process < run.processes.size(); ++process) {
    if (const TimeNs moved = run.clocks[run.clock_of[process]].moved; moved != 0) {
      move_times(run.processes[process], moved);
    }
  }
}

TimeNs number_among_facts(const ProcessTrace& trace, const char* name) {
  const auto fact = trace.facts.find(name);
  TimeNs number = 0;
  if (fact != trace.facts.end()) {
    std::from_chars(fact->second.data(), fact->second.data() + fact->second.size(), number);
  }
  return number;
}

// Dumps of Flight Recorder were brought together when they were read, and do not say their hosts.
void add_skews_of_dumps(Run& run) {
  for (const ProcessTrace& trace : run.processes) {
    const TimeNs moved = is_flight_dump(trace) ? number_among_facts(trace, "clock-moved") : 0;
    if (moved == 0) {
      continue;
    }
    const TimeNs error = number_among_facts(trace, "clock-error");
    const std::string own = trace.source.substr(trace.source.rfind('/') + 1);
    const std::string others = "the other dumps";
    run.skews.push_back({moved > 0 ? own : others, moved > 0 ? others : own,
                         std::max(moved, -moved) - error, error});
  }
}

TimeNs uncertainty_of(const Run& run, size_t a, size_t b) {
  const RunClock& first = run.clocks[a];
  const RunClock& second = run.clocks[b];
  return a == b ? 0
         : !first.comparable || !second.comparable
             ? kNoCommonClock
             : std::min(first.error + second.error, kNoCommonClock);
}

void find_ends(Run& run) {
  for (size_t process = 0; process < run.processes.size(); ++process) {
    RunClock& clock = run.clocks[run.clock_of[process]];
    clock.end = std::max(clock.end, last_sign_of_life(run.processes[process]));
  }
  // The latest by any clock, and by any that can be compared: uncertainty_of(), but once for all.
  TimeNs latest = std::numeric_limits<TimeNs>::min();
  TimeNs latest_comparable = latest;
  for (const RunClock& clock : run.clocks) {
    latest = std::max(latest, elapsed(kNoCommonClock, clock.end));
    if (clock.comparable) {
      latest_comparable = std::max(latest_comparable, elapsed(clock.error, clock.end));
    }
  }
  for (RunClock& own : run.clocks) {
    own.end = std::max(own.end, latest);
    if (own.comparable) {
      own.end = std::max(own.end, elapsed(own.error, latest_comparable));
    }
  }
}

size_t clock_of(const Run& run, const ProcessTrace& trace) {
  return run.clock_of[static_cast<size_t>(&trace - run.processes.data())];
}

}  // namespace

void align_clocks_of(Run& run) {
  const std::vector<std::string> names = clock_names(run);
  unite_machines(names, run);
  list_clocks(names, run);
  if (run.clocks.size() > 1) {
    align(run);
  }
  add_skews_of_dumps(run);
  find_ends(run);
}

TimeNs uncertainty_between(const Run& run, const ProcessTrace& a, const ProcessTrace& b) {
  return run.clocks.empty() ? 0 : uncertainty_of(run, clock_of(run, a), clock_of(run, b));
}

TimeNs end_for(const Run& run, const ProcessTrace& trace) {
  return run.clocks.empty() ? run.end : run.clocks[clock_of(run, trace)].end;
}

TimeNs known_until(const Run& run, const RankState& state) {
  const Life& life = state.life;
  return life.ending == Ending::kRunning
             ? std::max(life.last_seen, end_for(run, trace_of(run, state)))
             : std::max(life.last_seen, life.ended);
}

TimeNs moved_by(const Run& run, const ProcessTrace& trace) {
  return run.clocks.empty() ? 0 : run.clocks[clock_of(run, trace)].moved;
}

}  // namespace traintrace
