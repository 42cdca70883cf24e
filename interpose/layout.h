// How large the sections of a new trace are and where they lie.
#pragma once

#include <cstdint>

#include "format/trace_format.h"

namespace traintrace {

// How much a trace may hold.  The tables cost 10 MiB beside the ring and the definitions.
struct TraceSize {
  uint32_t ring_mb;
  uint32_t definitions_mb;
  bool progress;  // the tables of the levels `marks` and `plugin`: half a MiB
};
TraceSize usual_size(uint32_t ring_mb, bool progress) noexcept;
// What is left to try where the size does not fit; false: it is the smallest.
bool make_smaller(TraceSize& size) noexcept;

// Fills in the header's sections.  Returns the size of the file.
uint64_t lay_out(const TraceSize& size, format::FileHeader& header) noexcept;

// Writes the schema into its section.
void write_schema(format::FileHeader* file) noexcept;

}  // namespace traintrace
