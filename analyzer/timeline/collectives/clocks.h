// Clocks of several hosts, brought together by the ends of collectives, which all members see at
// the same time.  On one host there is one clock, and nothing is moved.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

struct Arrivals;

// What a clock shows beyond that of the first host: offset + drift * (time - since).
struct ClockShift {
  std::string clock;  // the host's name; "rank 3": of a profile that does not name its host
  int64_t offset_ns = 0;
  int64_t drift_ppb = 0;
  int64_t since_ns = 0;
  int64_t residual_ns = 0;  // what is left of the ends' differences in 95 of 100 collectives

  int64_t at(int64_t time_ns) const;
};

struct AlignedClocks {
  std::vector<ClockShift> shifts;  // of all clocks but the first; empty: there is one clock
  std::string why_not;             // there are several, and these are not brought together
  int64_t residual_ns = 0;         // the largest
};

// Moves the times in `arrivals` to the clock of the lowest rank.
AlignedClocks align_clocks(std::span<const Timeline> timelines, Arrivals& arrivals);

}  // namespace traintrace
