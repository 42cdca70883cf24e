// What PyTorch's allocator holds grows with each size that it has not seen.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/detectors/memory/allocator_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Sizes for which memory was taken although as much lay in segments with nothing in them.
std::set<uint64_t> new_sizes(const AllocatorHistory& history) {
  std::set<uint64_t> sizes;
  for (const CacheMiss& miss : history.misses) {
    if (miss.reason == MissReason::kSizes) {
      sizes.insert(miss.request);
    }
  }
  return sizes;
}

uint64_t most_unusable(const AllocatorHistory& history) {
  uint64_t most = 0;
  for (const CacheMiss& miss : history.misses) {
    most = std::max(most, miss.reason == MissReason::kSizes ? miss.free : 0);
  }
  return most;
}

const CacheMiss& last_miss(const AllocatorHistory& history) {
  return *std::find_if(history.misses.rbegin(), history.misses.rend(),
                       [](const CacheMiss& miss) { return miss.reason == MissReason::kSizes; });
}

}  // namespace

std::vector<Finding> find_cache_bloat(const Run& run, const RunMemory& memory) {
  const auto cases = allocator_cases(
      run, memory, [&](const ProcessMemory&, const AllocatorHistory& history, MemorySite& site) {
        const uint64_t idle =
            history.peak_reserved - std::min(history.peak_reserved, history.peak_allocated);
        const uint64_t unusable = most_unusable(history);
        const size_t sizes = new_sizes(history).size();
        if (!history.placed || sizes < kFewestSizes || !is_much(idle, history.peak_reserved) ||
            !is_much(unusable, history.peak_reserved)) {
          return false;
        }
        site.stack = last_miss(history).stack;
        site.bytes = unusable;
        site.count = sizes;
        site.text = fmt::format(
            "{} sizes, one after the other, for which memory was taken beside empty segments that "
            "were too small, up to {} bytes of them; in use at most {} bytes of {} bytes;",
            sizes, unusable, history.peak_allocated, history.peak_reserved);
        return true;
      });
  if (cases.empty()) {
    return {};
  }
  Finding finding = allocator_finding(run, "memory.cache-bloat", cases);
  const AllocatorHistory& worst = *cases.front().history;
  finding.title = fmt::format(
      "the cache of PyTorch's allocator on {} grows with each new size: {} bytes held "
      "for {} bytes in use on rank {}{}",
      ranks_text(finding.culprits), worst.peak_reserved, worst.peak_allocated,
      cases.front().site.rank.value, at_place(finding));
  finding.values = {{"reserved_bytes", signed_bytes(worst.peak_reserved)},
                    {"allocated_bytes", signed_bytes(worst.peak_allocated)},
                    {"unusable_bytes", signed_bytes(cases.front().site.bytes)},
                    {"size_count", static_cast<int64_t>(cases.front().site.count)}};
  finding.advice = "pad what varies to a few sizes, or run the largest first; " +
                   segments_advice(run.processes[cases.front().site.process]);
  return {finding};
}

}  // namespace traintrace
