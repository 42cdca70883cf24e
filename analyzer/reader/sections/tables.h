// The tables that are never evicted.
#pragma once

#include <unordered_map>
#include <vector>

#include "analyzer/reader/files/trace_bytes.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/sections/layout.h"
#include "analyzer/reader/sections/schema.h"
#include "analyzer/reader/trace_clock.h"

namespace traintrace {

// What the parts of the reader share.
struct ReadContext {
  const TraceBytes& file;
  const Layout& layout;
  const TraceClock& clock;
  Schema schema;
  ProcessTrace& trace;
  // Indices in the file's tables -> index + 1 in the trace's, 0: unused element.
  std::vector<uint32_t> communicators;
  std::vector<uint32_t> streams;
  // Numbers of communicators -> the same.
  std::unordered_map<uint64_t, uint32_t> communicators_by_number;
};

// A reference (index in the file + 1) as one into the trace's tables; 0: refers to nothing.
uint32_t mapped(const std::vector<uint32_t>& map, uint64_t reference);
uint32_t mapped(const std::unordered_map<uint64_t, uint32_t>& map, uint64_t reference);

void read_tables(ReadContext& context, const ReadOptions& options);

}  // namespace traintrace
