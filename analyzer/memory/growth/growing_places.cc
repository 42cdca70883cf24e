#include "analyzer/memory/growth/growing_places.h"

#include <algorithm>
#include <set>
#include <string>

#include "analyzer/memory/growth/growth.h"
#include "analyzer/model/process/code_place.h"

namespace traintrace {
namespace {

// Segments are taken by other ways through PyTorch than the blocks in them, from the same line.
class GrowingPlaces {
 public:
  GrowingPlaces(const ProcessTrace& trace, const MemoryHistory& history) : trace_(trace) {
    for (const GrowingGroup& growing : GrowthJudge(trace, history).growing()) {
      if (const auto place = user_place(trace, {0}, growing.group.stack)) {
        places_.insert(place_text(*place));
      }
    }
  }
  bool has(uint32_t stack) const {
    const auto place = places_.empty() ? std::nullopt : user_place(trace_, {0}, stack);
    return place && places_.contains(place_text(*place));
  }

 private:
  const ProcessTrace& trace_;
  std::set<std::string> places_;
};

// Most of what lies between the holes is what grows: without it they would be one.
bool lies_between_holes(const GrowingPlaces& growing, const AllocatorHistory& history) {
  uint64_t all = 0;
  uint64_t grown = 0;
  for (const auto& [stack, bytes] : history.pins) {
    all = sum_of(all, bytes);
    grown = growing.has(stack) ? sum_of(grown, bytes) : grown;
  }
  return grown > all - grown;
}

bool has_trouble(const AllocatorHistory& history) {
  return !history.misses.empty() || !history.retries.empty();
}

}  // namespace

void set_growth_aside(const ProcessTrace& trace, const MemoryHistory& history,
                      std::vector<AllocatorHistory>& allocators) {
  if (std::none_of(allocators.begin(), allocators.end(), has_trouble)) {
    return;
  }
  const GrowingPlaces growing(trace, history);
  for (AllocatorHistory& allocator : allocators) {
    const bool parted = lies_between_holes(growing, allocator);
    std::erase_if(allocator.misses, [&](const CacheMiss& miss) {
      return (miss.reason == MissReason::kSizes && growing.has(miss.stack)) ||
             (miss.reason == MissReason::kPieces && parted);
    });
    std::erase_if(allocator.retries,
                  [&](const AllocationRetry& retry) { return growing.has(retry.stack); });
  }
}

}  // namespace traintrace
