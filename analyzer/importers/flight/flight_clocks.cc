#include "analyzer/importers/flight/flight_clocks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/clock_offsets.h"
#include "analyzer/reader/move_times.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// What is empty, or of a size that nobody recorded, may need nobody.
bool needs_everybody(const ProcessTrace& trace, const OperationText& operation) {
  return operation.collective && operation.sequence != 0 && operation.count != 0 &&
         operation.call < trace.calls.size() &&
         direction_of(trace.calls[operation.call].name) == Direction::kAllToAll;
}

TimeNs over(const OperationText& operation) {
  return (operation.flags & format::kFinished) != 0 ? operation.completed : 0;
}

// A collective: its group and its number there.
using FlightKey = std::pair<uint64_t, uint64_t>;
struct FlightKeyHash {
  size_t operator()(const FlightKey& key) const {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
    return static_cast<size_t>((key.first + key.second) * kOdd);
  }
};

template <class Each>  // (key, operation)
void for_each_collective(const FlightFile& file, Each each) {
  const FlightDump& dump = file.dump;
  for (size_t i = 0; i < dump.groups.size(); ++i) {
    if (dump.groups[i].ranks.size() == 1) {
      continue;
    }
    const uint64_t group = group_id(dump.groups[i]);
    for (const OperationText& operation : dump.trace.communicators[i].recent) {
      if (needs_everybody(dump.trace, operation)) {
        each(FlightKey(group, operation.sequence), operation);
      }
    }
  }
}

// By several files that are taken to have one clock.
using Sides = std::unordered_map<FlightKey, ClockSide, FlightKeyHash>;

void add_side(ClockSide& side, const OperationText& operation) {
  side.entered = std::max(side.entered, operation.enter);
  const TimeNs end = over(operation);
  side.over = side.over == 0 || (end != 0 && end < side.over) ? end : side.over;
}

Sides sides_of(const std::vector<FlightFile*>& files) {
  Sides sides;
  for (const FlightFile* file : files) {
    for_each_collective(*file, [&](const FlightKey& key, const OperationText& operation) {
      add_side(sides[key], operation);
    });
  }
  return sides;
}

// Some saw a collective end before others had entered it.
bool contradict_each_other(const std::vector<FlightFile*>& files) {
  const Sides sides = sides_of(files);
  return std::any_of(sides.begin(), sides.end(), [](const auto& side) {
    return side.second.over != 0 &&
           elapsed(side.second.over, side.second.entered) > kClockSkewTolerated;
  });
}

// Of each file, by its place; the latest first.
std::vector<ClockSides> moments_of(const std::vector<FlightFile*>& files) {
  std::unordered_map<FlightKey, ClockSides, FlightKeyHash> by_key;
  for (size_t i = 0; i < files.size(); ++i) {
    for_each_collective(*files[i], [&](const FlightKey& key, const OperationText& operation) {
      if (over(operation) != 0) {
        add_side(by_key[key][i], operation);
      }
    });
  }
  std::vector<std::pair<TimeNs, FlightKey>> order;
  for (const auto& [key, sides] : by_key) {
    if (sides.size() > 1) {
      order.emplace_back(sides.begin()->second.over, key);
    }
  }
  std::sort(order.rbegin(), order.rend());
  std::vector<ClockSides> moments;
  moments.reserve(order.size());
  for (const auto& [last, key] : order) {
    moments.push_back(std::move(by_key[key]));
  }
  return moments;
}

void move_by(FlightFile& file, TimeNs by) {
  FlightDump& dump = file.dump;
  // Written on another machine, if that was before what is in it.
  const bool is_by_own_clock = file.written >= dump.last;
  move_times(dump.trace, by);
  for (TimeNs* time : {&dump.first, &dump.last, &dump.made, &dump.deadline}) {
    *time = *time == 0 ? 0 : elapsed(-by, *time);
  }
  file.written = file.written != 0 && is_by_own_clock ? elapsed(-by, file.written) : file.written;
}

void note_move(ProcessTrace& trace, TimeNs by, TimeNs error) {
  trace.facts["clock-moved"] = std::to_string(by);
  trace.facts["clock-error"] = std::to_string(error);
}

// Ended at one distance each time, from there to there; none: not so, or too few are in common.
std::optional<ClockBounds> distance_between(const std::vector<FlightFile*>& a,
                                            const std::vector<FlightFile*>& b) {
  const Sides of_b = sides_of(b);
  std::optional<ClockBounds> distance;
  size_t times = 0;
  for (const auto& [key, side] : sides_of(a)) {
    const auto other = of_b.find(key);
    if (other == of_b.end() || side.over == 0 || other->second.over == 0) {
      continue;
    }
    const ClockBounds own{WideNs{other->second.entered} - side.over,
                          WideNs{other->second.over} - side.entered};
    distance =
        distance ? ClockBounds{std::max(distance->low, own.low), std::min(distance->high, own.high)}
                 : own;
    ++times;
  }
  return times >= kFewestEndsOfOneJob && distance->low <= distance->high + kClockSkewTolerated
             ? distance
             : std::nullopt;
}

// Nobody has finished what another had not issued.
bool ended_together(const std::vector<FlightFile*>& a, const std::vector<FlightFile*>& b) {
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> ends;  // by group: finished, issued
  for (const std::vector<FlightFile*>* part : {&a, &b}) {
    for (const FlightFile* file : *part) {
      for_each_collective(*file, [&](const FlightKey& key, const OperationText& operation) {
        auto& end =
            ends.try_emplace(key.first, 0, std::numeric_limits<uint64_t>::max()).first->second;
        end.first = over(operation) != 0 ? std::max(end.first, key.second) : end.first;
      });
      for (size_t i = 0; i < file->dump.groups.size(); ++i) {
        if (const auto end = ends.find(group_id(file->dump.groups[i])); end != ends.end()) {
          end->second.second =
              std::min(end->second.second, file->dump.trace.communicators[i].collectives);
        }
      }
    }
  }
  return std::all_of(ends.begin(), ends.end(),
                     [](const auto& end) { return end.second.first <= end.second.second; });
}

}  // namespace

void align_flight_clocks(const std::vector<FlightFile*>& files) {
  if (files.size() < 2 || !contradict_each_other(files)) {
    return;
  }
  const std::vector<ClockSides> moments = moments_of(files);
  const size_t first = median_clock(files.size(), offsets_from(0, files.size(), moments));
  const ClockOffsets offsets = offsets_from(first, files.size(), moments);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::optional<ClockBounds>& ahead = offsets.of(i);
    if (!ahead || offsets.is_contradicted(i) ||
        (ahead->low <= kClockSkewTolerated && ahead->high >= -kClockSkewTolerated)) {
      continue;
    }
    const WideNs offset = likely_offset(*ahead);
    const WideNs error = std::max(ahead->high - offset, offset - ahead->low);
    move_by(*files[i], -static_cast<TimeNs>(offset));
    note_move(files[i]->dump.trace, -static_cast<TimeNs>(offset), static_cast<TimeNs>(error));
  }
}

bool are_flight_clocks_apart(const std::vector<FlightFile*>& a, const std::vector<FlightFile*>& b) {
  return distance_between(a, b).has_value() && ended_together(a, b);
}

}  // namespace traintrace
