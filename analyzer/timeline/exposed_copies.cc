#include "analyzer/timeline/exposed_copies.h"

#include <algorithm>
#include <limits>

#include "analyzer/timeline/spans.h"

namespace traintrace {

std::vector<ExposedCopy> exposed_copies(std::span<const GpuWork> work) {
  std::vector<Span> others;
  for (const GpuWork& each : work) {
    if (each.kind != WorkKind::kMemory) {
      others.push_back({each.start_ns, each.end_ns});
    }
  }
  const Spans covered = united(std::move(others));
  std::vector<ExposedCopy> copies;
  int64_t counted = std::numeric_limits<int64_t>::min();  // as far as earlier copies reach
  for (const GpuWork& each : work) {
    const Span own = {std::max(each.start_ns, counted), each.end_ns};
    if (each.kind != WorkKind::kMemory || own.end_ns <= own.begin_ns) {
      continue;
    }
    counted = own.end_ns;
    const int64_t ns = own.end_ns - own.begin_ns - length_ns(within(covered, own));
    if (ns > 0) {
      copies.push_back({&each, ns});
    }
  }
  return copies;
}

bool is_pageable_copy(std::string_view name) {
  return name.find("Pageable") != name.npos;
}

}  // namespace traintrace
