#include "analyzer/timeline/collectives/clocks.h"
#include "analyzer/thresholds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

constexpr int64_t kLongestShift = int64_t{1} << 61;
constexpr size_t kMostMoved = 256;  // collectives: a step of more has some whose lengths differ

int64_t clamped(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, -kLongestShift, kLongestShift));
}

// Of a member's collectives: by their correlation.
using EndsNotKnown = std::set<uint64_t>;

std::vector<EndsNotKnown> ends_not_known(std::span<const Timeline> timelines,
                                         const Arrivals& arrivals) {
  std::vector<EndsNotKnown> not_known;
  for (const size_t member : arrivals.members) {
    EndsNotKnown& own = not_known.emplace_back();
    for (const GpuWork& entry : timelines[member].entries) {
      if (entry.end == EndKnown::kAtLatest) {
        own.insert(entry.correlation);
      }
    }
  }
  return not_known;
}

// One collective, as two clocks show its end.
struct MatchedEnd {
  int64_t time_ns;  // by the first clock
  int64_t beyond_ns;
};

// None: it is not known of any of them.
std::optional<int64_t> end_by(const Arrival& arrival, const std::vector<size_t>& members,
                              const std::vector<EndsNotKnown>& not_known) {
  std::vector<int64_t> ends;
  ends.reserve(members.size());
  for (const size_t member : members) {
    if (!not_known[member].contains(arrival.correlation[member])) {
      ends.push_back(arrival.end_ns[member]);
    }
  }
  return ends.empty() ? std::nullopt : std::optional(upper_median(std::move(ends)));
}

int64_t median_of(std::span<const MatchedEnd> pairs, int64_t MatchedEnd::*what) {
  std::vector<int64_t> values;
  for (const MatchedEnd& pair : pairs) {
    values.push_back(pair.*what);
  }
  return upper_median(std::move(values));
}

// Through the medians of the first and the last third, so that single collectives do not matter.
ClockShift fit(std::span<const MatchedEnd> pairs) {
  const size_t third = pairs.size() / 3;
  const auto first = pairs.first(third);
  const auto last = pairs.last(third);
  const __int128 passed = static_cast<__int128>(median_of(last, &MatchedEnd::time_ns)) -
                          median_of(first, &MatchedEnd::time_ns);
  const __int128 grown = static_cast<__int128>(median_of(last, &MatchedEnd::beyond_ns)) -
                         median_of(first, &MatchedEnd::beyond_ns);
  ClockShift shift;
  shift.since_ns = pairs.front().time_ns;
  shift.drift_ppb = passed > 0 ? clamped(grown * 1'000'000'000 / passed) : 0;
  std::vector<int64_t> offsets;
  for (const MatchedEnd& pair : pairs) {
    offsets.push_back(clamped(static_cast<__int128>(pair.beyond_ns) - shift.at(pair.time_ns)));
  }
  shift.offset_ns = upper_median(offsets);
  for (int64_t& offset : offsets) {
    offset = std::abs(clamped(static_cast<__int128>(offset) - shift.offset_ns));
  }
  std::sort(offsets.begin(), offsets.end());
  shift.residual_ns = offsets[(offsets.size() - 1) * 95 / 100];
  return shift;
}

std::vector<MatchedEnd> matched(std::span<const int64_t> here, std::span<const int64_t> there) {
  std::vector<MatchedEnd> pairs;
  for (size_t i = 0; i < here.size(); ++i) {
    pairs.push_back({here[i], clamped(static_cast<__int128>(there[i]) - here[i])});
  }
  return pairs;
}

// Joined by their order alone, collectives of which one side lacks the first some, and the other
// the last, would look like clocks that are as far apart: whether ends agree much worse where one
// side is moved by some collectives.
bool is_only_join(std::span<const int64_t> here, std::span<const int64_t> there,
                  const ClockShift& joined) {
  const int64_t least = kJoinTimes * std::max(joined.residual_ns, kNoiseNs);
  const size_t most = here.size() - kClockCollectives / 2;
  for (size_t moved = 1; moved <= std::min(most, kMostMoved); ++moved) {
    const size_t left = here.size() - moved;
    for (const ClockShift& other : {fit(matched(here.first(left), there.last(left))),
                                    fit(matched(here.last(left), there.first(left)))}) {
      if (other.residual_ns < least) {
        return false;
      }
    }
  }
  return true;
}

// Members by clock, the clock of the lowest rank first.
struct Clock {
  std::string name;
  std::vector<size_t> members;
};

std::vector<Clock> clocks_of(std::span<const Timeline> timelines, const Arrivals& arrivals) {
  std::vector<Clock> clocks;
  for (size_t i = 0; i < arrivals.members.size(); ++i) {
    const Timeline& timeline = timelines[arrivals.members[i]];
    const std::string name =
        timeline.host.empty() ? fmt::format("rank {}", timeline.rank.value_or(0)) : timeline.host;
    const auto known = std::find_if(clocks.begin(), clocks.end(),
                                    [&](const Clock& clock) { return clock.name == name; });
    if (known == clocks.end()) {
      clocks.push_back({name, {i}});
    } else {
      known->members.push_back(i);
    }
  }
  return clocks;
}

// The shift is a function of the first clock's time, which is what is sought.
void move(int64_t& time, const ClockShift& shift) {
  const int64_t nearly = clamped(static_cast<__int128>(time) - shift.offset_ns);
  const int64_t nearer = clamped(static_cast<__int128>(time) - shift.at(nearly));
  time = clamped(static_cast<__int128>(time) - shift.at(nearer));
}

void move(Arrivals& arrivals, const Clock& clock, const ClockShift& shift) {
  for (const size_t member : clock.members) {
    move(arrivals.entered_ns[member], shift);
    for (Arrival& arrival : arrivals.list) {
      for (std::vector<int64_t>* times : {&arrival.start_ns, &arrival.end_ns, &arrival.launch_ns}) {
        move((*times)[member], shift);
      }
    }
  }
}

}  // namespace

int64_t ClockShift::at(int64_t time_ns) const {
  return clamped(offset_ns +
                 (static_cast<__int128>(time_ns) - since_ns) * drift_ppb / 1'000'000'000);
}

AlignedClocks align_clocks(std::span<const Timeline> timelines, Arrivals& arrivals) {
  AlignedClocks result;
  const std::vector<Clock> clocks = clocks_of(timelines, arrivals);
  if (clocks.size() < 2) {
    return result;
  }
  if (arrivals.list.size() < kClockCollectives) {
    result.why_not = fmt::format("fewer than {} collectives to align them", kClockCollectives);
    return result;
  }
  const std::vector<EndsNotKnown> not_known = ends_not_known(timelines, arrivals);
  for (size_t i = 1; i < clocks.size(); ++i) {
    std::vector<int64_t> here;
    std::vector<int64_t> there;
    for (const Arrival& arrival : arrivals.list) {
      const std::optional<int64_t> end = end_by(arrival, clocks[0].members, not_known);
      const std::optional<int64_t> end_there = end_by(arrival, clocks[i].members, not_known);
      if (end && end_there) {
        here.push_back(*end);
        there.push_back(*end_there);
      }
    }
    if (here.size() < kClockCollectives) {
      result.why_not = fmt::format(
          "hosts {} and {} saw the ends of {} collectives as they came, and it takes {}",
          clocks[0].name, clocks[i].name, here.size(), kClockCollectives);
      return result;
    }
    ClockShift shift = fit(matched(here, there));
    if (!arrivals.numbered && !is_only_join(here, there, shift)) {
      result.why_not =
          "the collectives have no numbers, and joined otherwise their ends agree as well";
      return result;
    }
    shift.clock = clocks[i].name;
    // By calls alone only those late by more than that are judged: Arrivals::noise_ns().
    if (!arrivals.by_host && shift.residual_ns > kMostResidualNs) {
      result.why_not = fmt::format(
          "ends of collectives on {} and on {} differ by {:.3f} ms more or less than at the median",
          clocks[0].name, shift.clock, static_cast<double>(shift.residual_ns) / 1e6);
      return result;
    }
    if (std::abs(shift.drift_ppb) > kMostDriftPpb) {
      result.why_not = fmt::format(
          "ends of collectives on {} and on {} drift apart by {} ppm, and clocks by {} at most",
          clocks[0].name, shift.clock, std::abs(shift.drift_ppb) / 1000, kMostDriftPpb / 1000);
      return result;
    }
    result.residual_ns = std::max(result.residual_ns, shift.residual_ns);
    result.shifts.push_back(std::move(shift));
  }
  for (size_t i = 1; i < clocks.size(); ++i) {
    move(arrivals, clocks[i], result.shifts[i - 1]);
  }
  return result;
}

}  // namespace traintrace
