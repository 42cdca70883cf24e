#include "analyzer/memory/growth/full_tables.h"

#include <algorithm>
#include <vector>

#include "analyzer/memory/blocks.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Of `table`, what found no place in it, and was not freed since, as far as is known.
enum class LiveTable : uint8_t { kTensors, kAllocations };
uint64_t blocks_left_out(const ProcessTrace& trace, LiveTable table) {
  const bool tensors = table == LiveTable::kTensors;
  uint64_t left_out = 0;
  uint64_t freed = 0;
  for (const LossText& loss : trace.losses) {
    if (loss.stat == (tensors ? "tensor-blocks-full" : "allocations-full")) {
      left_out = sum_of(left_out, loss.count);
    } else if (loss.stat == (tensors ? "unknown-tensor-free" : "unknown-free")) {
      freed = sum_of(freed, loss.count);
    }
  }
  return left_out - std::min(left_out, freed);
}

// When it was full; nullopt: it never was, or little came later.  What is freed leaves room for a
// few that came much later.
std::optional<TimeNs> full_since(const ProcessTrace& trace, LiveTable table) {
  std::vector<TimeNs> births;
  if (table == LiveTable::kTensors) {
    for (const TensorBlockText& block : trace.tensor_blocks) {
      births.push_back(block.time);
    }
    for (const FreedBlockText& block : trace.freed_blocks) {
      births.push_back(block.time);
    }
  } else {
    for (const AllocationText& allocation : trace.allocations) {
      births.push_back(allocation.time);
    }
  }
  if (births.empty() || blocks_left_out(trace, table) < births.size() / kMuchLeftOut) {
    return std::nullopt;
  }
  constexpr size_t kFew = 100;  // one in so many
  const auto last = births.end() - 1 - static_cast<std::ptrdiff_t>(births.size() / kFew);
  std::nth_element(births.begin(), last, births.end());
  return *last;
}

}  // namespace

std::optional<TimeNs> tables_full_since(const ProcessTrace& trace) {
  const auto tensors = full_since(trace, LiveTable::kTensors);
  const auto allocations = full_since(trace, LiveTable::kAllocations);
  return tensors && allocations ? std::min(tensors, allocations) : tensors ? tensors : allocations;
}

}  // namespace traintrace
