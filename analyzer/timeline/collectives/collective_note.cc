#include "analyzer/timeline/collectives/collective_note.h"

#include <algorithm>

namespace traintrace {

const CollectiveNote* collective_note(const Timeline& timeline, uint64_t correlation) {
  const auto note = std::lower_bound(
      timeline.collectives.begin(), timeline.collectives.end(), correlation,
      [](const CollectiveNote& each, uint64_t value) { return each.correlation < value; });
  return note != timeline.collectives.end() && note->correlation == correlation ? &*note : nullptr;
}

}  // namespace traintrace
