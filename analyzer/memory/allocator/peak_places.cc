#include "analyzer/memory/allocator/peak_places.h"

#include <algorithm>

#include "analyzer/memory/allocator/peak.h"
#include "analyzer/memory/memory_life.h"

namespace traintrace {

namespace {

using StackBytes = std::map<uint32_t, uint64_t>;

template <class Held>
PeakPlaces places_of(const ProcessTrace& trace, Rank rank, const Held& held, SamePlace same) {
  PeakPlaces places;
  for (const auto& [stack, bytes] : held) {
    const auto code = user_place(trace, rank, stack);
    PlaceBytes& place = places[code ? place_text(*code, same) : "an unknown place"];
    place.bytes += bytes;
    place.stack = place.stack == 0 ? stack : place.stack;
  }
  return places;
}

bool is_on(const MemoryEvent& event, int device) {
  return event.block.device == device && on_device(event.block.kind) && is_in_use(event.block);
}

// As many events as lead to the first time that most was in use.
size_t length_to_peak(const MemoryLife& life, int device) {
  uint64_t now = 0;
  uint64_t most = 0;
  size_t length = 0;
  for (size_t i = 0; i < life.events.size(); ++i) {
    const MemoryEvent& event = life.events[i];
    if (is_on(event, device)) {
      now += event.taken ? event.block.bytes : uint64_t{0} - event.block.bytes;
      length = now > most ? i + 1 : length;
      most = std::max(most, now);
    }
  }
  return length;
}

}  // namespace

PeakPlaces places_at_peak(const ProcessTrace& trace, Rank rank, const AllocatorHistory& history,
                          SamePlace same) {
  return places_of(trace, rank, held_at_peak(trace, history), same);
}

PeakPlaces places_at_peak(const ProcessTrace& trace, Rank rank, int device) {
  const MemoryLife life = memory_life(trace);
  StackBytes held;
  const size_t length = length_to_peak(life, device);
  for (size_t i = 0; i < length; ++i) {
    const MemoryEvent& event = life.events[i];
    if (is_on(event, device)) {
      held[event.block.stack] += event.taken ? event.block.bytes : uint64_t{0} - event.block.bytes;
    }
  }
  return places_of(trace, rank, held, SamePlace::kLine);
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
