// The device refuses memory, PyTorch's allocator gives back what it has cached and asks again.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/memory/allocator_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

const AllocationRetry& longest(const AllocatorHistory& history) {
  return *std::max_element(
      history.retries.begin(), history.retries.end(),
      [](const AllocationRetry& a, const AllocationRetry& b) { return a.took < b.took; });
}

TimeNs time_of(const AllocatorHistory& history) {
  TimeNs sum = 0;
  for (const AllocationRetry& retry : history.retries) {
    sum = __builtin_add_overflow(sum, retry.took, &sum) ? retry.took : sum;
  }
  return sum;
}

}  // namespace

std::vector<Finding> find_allocation_retries(const Run& run, const RunMemory& memory) {
  const auto cases = allocator_cases(
      run, memory, [](const ProcessMemory&, const AllocatorHistory& history, MemorySite& site) {
        if (history.retries.size() < kFewestRetries) {
          return false;
        }
        for (const AllocationRetry& retry : history.retries) {
          site.bytes = sum_of(site.bytes, retry.given_back);
        }
        site.count = history.retries.size();
        site.stack = longest(history).stack;
        site.text = fmt::format(
            "the device refused memory {} times; {} bytes of cached segments were given back, and "
            "then it was had; {} ns in all, most of them for {} bytes",
            site.count, site.bytes, time_of(history), longest(history).request);
        return true;
      });
  if (cases.empty()) {
    return {};
  }
  Finding finding = allocator_finding(run, "memory.alloc-retry", cases);
  const AllocatorCase& worst = cases.front();
  finding.title = fmt::format("memory was refused to {} and asked for again, {} times on rank {}{}",
                              ranks_text(finding.culprits), worst.site.count, worst.site.rank.value,
                              at_place(finding));
  finding.values = {{"retry_count", static_cast<int64_t>(worst.site.count)},
                    {"freed_bytes", signed_bytes(worst.site.bytes)},
                    {"retry_ns", time_of(*worst.history)}};
  finding.advice = "each retry stops the device: the job works at the limit of its memory";
  return {finding};
}

}  // namespace traintrace
