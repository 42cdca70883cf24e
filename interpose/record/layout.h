// How large the sections of a new trace are and where they lie.
#pragma once

#include <cstdint>

#include "format/trace_format.h"

namespace traintrace {

// How much a trace may hold at most.  It begins with less, whatever that is (growth.h).
struct TraceSize {
  uint32_t ring_mb;
  uint32_t first_ring_mb;
  uint32_t definitions_mb;
  uint32_t table_steps;  // of those tables that grow, 1..kMostTableSteps
  bool progress;         // the tables of the levels `marks` and `plugin`: half a MiB
};
TraceSize usual_size(uint32_t ring_mb, bool progress) noexcept;
// Of a forked child, which often lives for a few calls: its first one waits for this memory.
TraceSize size_of_child(uint32_t ring_mb, bool progress) noexcept;
// What is left to try where the size does not fit; false: it is the smallest.
bool make_smaller(TraceSize& size) noexcept;

// Tables of what is live grow in steps, each four times the one before: elements of step n lie
// after those of the steps before it.
inline constexpr uint32_t kMostTableSteps = 5;
inline constexpr uint32_t kFirstTableStep = 16384;
constexpr uint32_t elements_of_step(uint32_t step) {
  return kFirstTableStep << (2 * step);
}
constexpr uint32_t elements_before_step(uint32_t step) {
  uint32_t elements = 0;
  for (uint32_t i = 0; i < step; ++i) {
    elements += elements_of_step(i);
  }
  return elements;
}

// Fills in the header's sections and what of them is used from the start.  Returns the size of the
// memory with all its holes.
uint64_t lay_out(const TraceSize& size, format::FileHeader& header) noexcept;

// Writes the schema into its section.
void write_schema(format::FileHeader* file) noexcept;

}  // namespace traintrace
