// The peak of PyTorch's memory is one block that lives for a moment.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/allocator_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/memory/allocator/peak.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// It was there when an allocation failed, and freed as an exception unwound: the batch that did not
// fit, of which the finding about that failure tells.
bool was_there_at_a_failure(const ProcessTrace& trace, const Spike& spike) {
  return std::any_of(trace.out_of_memory.begin(), trace.out_of_memory.end(),
                     [&](const OutOfMemoryText& failure) {
                       // PyTorch's own word for an exception; what the device refuses may be had at
                       // the second attempt.
                       const CallSchema* const schema = schema_of(trace, failure.call);
                       return schema != nullptr && schema->kind.starts_with("tensor-") &&
                              spike.taken <= failure.time && failure.time <= spike.freed;
                     });
}

}  // namespace

std::vector<Finding> find_temporary_spikes(const Run& run, const RunMemory& memory) {
  const auto cases = allocator_cases(
      run, memory,
      [&](const ProcessMemory& process, const AllocatorHistory& history, MemorySite& site) {
        const auto spike =
            process.history && history.placed && history.peak_allocated >= kMuchMemory
                ? spike_of(run.processes[site.process], history, *process.history)
                : std::nullopt;
        // Where there is hardly anything else it is the work itself.
        if (!spike || spike->without >= history.peak_allocated ||
            spike->without < history.peak_allocated / 4 ||
            !is_much(history.peak_allocated - spike->without, history.peak_allocated) ||
            was_there_at_a_failure(run.processes[site.process], *spike)) {
          return false;
        }
        site.stack = spike->stack;
        site.bytes = spike->bytes;
        site.count = history.peak_allocated - spike->without;
        site.text = fmt::format(
            "{} bytes from {} to {}, when {} bytes were in use; without them, never more than {} "
            "bytes;",
            spike->bytes, run_time(run, spike->taken), run_time(run, spike->freed),
            history.peak_allocated, spike->without);
        return true;
      });
  if (cases.empty()) {
    return {};
  }
  Finding finding = allocator_finding(run, "memory.temporary-spike", cases);
  const AllocatorCase& worst = cases.front();
  finding.title = fmt::format(
      "the peak of {} is one block that lives for a moment: {} bytes of {} bytes on rank {}, {} "
      "bytes lower without it{}",
      ranks_text(finding.culprits), worst.site.bytes, worst.history->peak_allocated,
      worst.site.rank.value, worst.site.count, at_place(finding));
  finding.values = {{"peak_bytes", signed_bytes(worst.history->peak_allocated)},
                    {"block_bytes", signed_bytes(worst.site.bytes)},
                    {"saved_bytes", signed_bytes(worst.site.count)}};
  finding.advice = "compute it in parts, in place, or free it before the rest is allocated";
  return {finding};
}

}  // namespace traintrace
