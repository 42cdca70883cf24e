#include "analyzer/memory/memory_diff.h"

#include <algorithm>

#include "analyzer/memory/history.h"

namespace traintrace {
namespace {

// Empty unless its records reach back to the peak.
PeakPlaces places_of(const RankAllocator& of, uint64_t peak) {
  for (const AllocatorHistory& history : allocator_histories(*of.trace)) {
    if (history.device == of.device && history.peak_allocated == peak) {
      return places_at_peak(*of.trace, of.rank, history, SamePlace::kFunction);
    }
  }
  return {};
}

std::string text_of(const RankAllocator& of, uint32_t stack) {
  const auto place = user_place(*of.trace, of.rank, stack);
  return place ? place_text(*place) : "an unknown place";
}

}  // namespace

MemoryDiff memory_diff(const RankAllocator& a, uint64_t peak_a, const RankAllocator& b,
                       uint64_t peak_b) {
  MemoryDiff diff;
  diff.a = {a.rank, a.device, peak_a, 0, ""};
  diff.b = {b.rank, b.device, peak_b, 0, ""};
  if (!all_is_recorded(*a.trace) || !all_is_recorded(*b.trace)) {
    return diff;
  }
  const bool b_is_higher = diff.b_is_higher();
  const RankAllocator& high = b_is_higher ? b : a;
  const RankAllocator& low = b_is_higher ? a : b;
  const PeakPlaces at_high = places_of(high, std::max(peak_a, peak_b));
  const PeakPlaces at_low = places_of(low, std::min(peak_a, peak_b));
  if (!at_high.empty() && !at_low.empty()) {
    diff.surplus = surplus_of(at_high, at_low);
  }
  const auto split = allocation_split(high, low, SamePlace::kFunction);
  if (split) {
    diff.split = true;
    diff.same = split->same;
    PeakSide& of_high = b_is_higher ? diff.b : diff.a;
    PeakSide& of_low = b_is_higher ? diff.a : diff.b;
    of_high.bytes = split->bytes;
    of_high.place = text_of(high, split->stack);
    of_low.bytes = split->other_bytes;
    of_low.place = split->other_bytes == 0 ? "" : text_of(low, split->other_stack);
  }
  return diff;
}

}  // namespace traintrace
