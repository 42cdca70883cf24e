// How far clocks are ahead of each other, by the ends of operations in which everybody needs
// everybody: none is over before the last member has entered it.  Between the last entry by a clock
// and the first end that was seen by it, that clock showed the moment at which all had entered.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

using WideNs = __int128;  // no sum of a few times overflows it

// What a clock shows at a moment, or how far it is ahead of the first: not below, not above.
struct ClockBounds {
  WideNs low = 0;
  WideNs high = 0;
};

// An operation, as the clock of one host shows it.
struct ClockSide {
  TimeNs entered = 0;  // by the last there; 0: by nobody there
  TimeNs over = 0;     // as was first seen there; 0: it was not
  // Said to be over once its call returned: so write it those who know that it finished, and not
  // when.
  bool supposed = false;
};

// By clock.
using ClockSides = std::map<size_t, ClockSide>;

// How far each clock is ahead of the first of those that are known.
class ClockOffsets {
 public:
  explicit ClockOffsets(size_t clocks) : ahead_(clocks) {}

  void set_first(size_t clock) { ahead_[clock] = ClockBounds{}; }
  const std::optional<ClockBounds>& of(size_t clock) const { return ahead_[clock]; }

  // Its moments contradict each other by more than clocks drift apart: damage, or no clock at all.
  bool is_contradicted(size_t clock) const { return contradicted_.contains(clock); }

  // Whether anything new came of it.
  bool learn(const ClockSides& sides);

 private:
  bool learn(size_t clock, const ClockBounds& own);
  bool is_first(size_t clock) const;
  std::optional<ClockBounds> moment_of(const ClockSides& sides) const;

  std::vector<std::optional<ClockBounds>> ahead_;  // by clock
  std::set<size_t> contradicted_;
  std::map<size_t, size_t> agreed_;  // how many moments of each clock
  WideNs latest_ = 0;
};

// By those moments, the latest first: what was so long ago that clocks have drifted or were set
// since does not count against it.
ClockOffsets offsets_from(size_t first, size_t clocks, const std::vector<ClockSides>& moments);

// Clocks that NTP keeps agree as well as can be told from here.
WideNs likely_offset(const ClockBounds& ahead);

// The middle one, so that one clock that is wrong is the one that is moved.
size_t median_clock(size_t clocks, const ClockOffsets& offsets);

}  // namespace traintrace
