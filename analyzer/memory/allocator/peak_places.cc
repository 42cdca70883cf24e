#include "analyzer/memory/allocator/peak_places.h"

#include "analyzer/memory/allocator/peak.h"

namespace traintrace {

PeakPlaces places_at_peak(const ProcessTrace& trace, Rank rank, const AllocatorHistory& history,
                          SamePlace same) {
  PeakPlaces places;
  for (const auto& [stack, bytes] : held_at_peak(trace, history)) {
    const auto code = user_place(trace, rank, stack);
    PlaceBytes& place = places[code ? place_text(*code, same) : "an unknown place"];
    place.bytes += bytes;
    place.stack = place.stack == 0 ? stack : place.stack;
  }
  return places;
}

Surplus surplus_of(const PeakPlaces& high, const PeakPlaces& other) {
  Surplus most;
  for (const auto& [place, held] : high) {
    const auto same = other.find(place);
    const uint64_t bytes = same == other.end() ? 0 : same->second.bytes;
    if (held.bytes > bytes && held.bytes - bytes > most.bytes - most.other) {
      most = {place, held.bytes, bytes, held.stack};
    }
  }
  return most;
}

}  // namespace traintrace
