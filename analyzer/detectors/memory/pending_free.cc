// Freed blocks that wait for another stream while new memory is taken in their place.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/allocator_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

std::string stream_text(const ProcessTrace& trace, uint32_t stream) {
  return stream == 0 || stream > trace.streams.size()
             ? "another stream"
             : fmt::format("stream 0x{:x}", trace.streams[stream - 1].handle);
}

// Again and again, and still in the later half of the steps: a cache that fills, fills once.
bool is_pending_habit(const AllocatorHistory& history,
                      const std::optional<MemoryHistory>& of_process) {
  size_t times = 0;
  TimeNs last = 0;
  for (const CacheMiss& miss : history.misses) {
    times += miss.reason == MissReason::kPending ? 1 : 0;
    last = miss.reason == MissReason::kPending ? miss.time : last;
  }
  if (times < kFewestPending) {
    return false;
  }
  const Steps steps = of_process ? of_process->steps : Steps();
  return steps.count() == 0 || last >= steps.first() + elapsed(steps.first(), steps.last()) / 2;
}

// c10d names NCCL's stream for the tensors of its collectives.
bool is_of_nccl(const ProcessTrace& trace, uint32_t stream) {
  return stream != 0 &&
         std::any_of(trace.communicators.begin(), trace.communicators.end(),
                     [&](const CommunicatorText& communicator) {
                       return std::any_of(communicator.recent.begin(), communicator.recent.end(),
                                          [&](const OperationText& operation) {
                                            return operation.stream == stream;
                                          });
                     });
}

}  // namespace

std::vector<Finding> find_pending_frees(const Run& run, const RunMemory& memory) {
  const auto cases = allocator_cases(
      run, memory,
      [&](const ProcessMemory& of_process, const AllocatorHistory& history, MemorySite& site) {
        const uint64_t mapped = history.mapped[static_cast<size_t>(MissReason::kPending)];
        if (!history.placed || !is_pending_habit(history, of_process.history) ||
            !is_much(mapped, history.peak_reserved)) {
          return false;
        }
        site.stack = history.pending_stack;
        site.bytes = mapped;
        site.count = 1;
        site.text = fmt::format(
            "{} bytes taken from the device while freed blocks that were large enough waited for "
            "{}: {} bytes of them at {}; the one in front was allocated",
            mapped, stream_text(run.processes[site.process], history.pending_stream),
            history.peak_pending, run_time(run, history.peak_pending_time));
        return true;
      });
  if (cases.empty()) {
    return {};
  }
  Finding finding = allocator_finding(run, "memory.pending-free", cases);
  const AllocatorHistory& worst = *cases.front().history;
  finding.title = fmt::format(
      "freed memory of {} waits for another stream: up to {} bytes on rank {}, and {} more were "
      "taken instead{}",
      ranks_text(finding.culprits), worst.peak_pending, cases.front().site.rank.value,
      cases.front().site.bytes, at_place(finding));
  finding.values = {{"pending_bytes", signed_bytes(worst.peak_pending)},
                    {"extra_bytes", signed_bytes(cases.front().site.bytes)}};
  const ProcessTrace& trace = run.processes[cases.front().site.process];
  finding.advice =
      is_of_nccl(trace, worst.pending_stream)
          ? "the blocks wait for NCCL's stream, which PyTorch records for the tensors of "
            "asynchronous "
            "collectives: TORCH_NCCL_AVOID_RECORD_STREAMS=1 avoids it, or wait for the collective "
            "before its tensors are freed"
          : "free where the other stream is done with it: let it wait for an event instead of "
            "record_stream, or bound how far it runs behind";
  return {finding};
}

}  // namespace traintrace
