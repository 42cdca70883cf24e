// Where what a rank had in use at its peak was allocated, and what another had more of.
#pragma once

#include <map>
#include <string>

#include "analyzer/memory/allocator/allocator_history.h"
#include "analyzer/memory/allocator/same_place.h"

namespace traintrace {

struct PlaceBytes {
  uint64_t bytes = 0;
  uint32_t stack = 0;  // of one of them
};
using PeakPlaces = std::map<std::string, PlaceBytes>;  // "train.py:12 in step"
PeakPlaces places_at_peak(const ProcessTrace& trace, Rank rank, const AllocatorHistory& history,
                          SamePlace same = SamePlace::kLine);

// Without PyTorch's allocator: of what calls took on that device.
PeakPlaces places_at_peak(const ProcessTrace& trace, Rank rank, int device);

// The place of which `high` had most beyond `other`.
struct Surplus {
  std::string place;
  uint64_t bytes = 0, other = 0;  // both 0: there is none
  uint32_t stack = 0;
};
Surplus surplus_of(const PeakPlaces& high, const PeakPlaces& other);

}  // namespace traintrace
