// The cache of PyTorch's allocator is emptied again and again.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/detectors/memory/allocator_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

struct Place {
  size_t count = 0;
  uint64_t bytes = 0;
};

// The stack from which it is emptied in half of the steps.
const std::pair<const uint32_t, Place>* in_loop(const std::map<uint32_t, Place>& places,
                                                uint64_t steps) {
  const auto most = std::max_element(
      places.begin(), places.end(),
      [](const auto& a, const auto& b) { return a.second.count < b.second.count; });
  return most != places.end() && most->second.count >= kFewestFlushes &&
                 most->second.count >= steps / 2
             ? &*most
             : nullptr;
}

// torch.cuda.graph() empties it before it captures.
bool is_of_capture(const ProcessTrace& trace, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  return found != trace.stacks.end() &&
         std::any_of(found->second.python.begin(), found->second.python.end(),
                     [](const PythonFrameText& frame) {
                       return frame.file.ends_with("torch/cuda/graphs.py");
                     });
}

std::string advice_for(const ProcessTrace& trace, uint32_t stack) {
  return is_of_capture(trace, stack)
             ? "capture one graph for each shape, and replay it: torch.cuda.graph() waits for the "
               "device and empties the cache each time, and the same memory is asked for again"
             : "leave out torch.cuda.empty_cache(): each time the device is waited for, and "
               "the same memory is asked for again; if it is not called, it is the limit set "
               "by garbage_collection_threshold or set_per_process_memory_fraction";
}

}  // namespace

std::vector<Finding> find_cache_flushes(const Run& run, const RunMemory& memory) {
  const auto cases = allocator_cases(
      run, memory,
      [](const ProcessMemory& process, const AllocatorHistory& history, MemorySite& site) {
        std::map<uint32_t, Place> places;
        for (const CacheFlush& flush : history.flushes) {
          Place& place = places[flush.stack];
          ++place.count;
          place.bytes = sum_of(place.bytes, flush.bytes);
        }
        const uint64_t steps = process.history ? process.history->steps.count() : 0;
        const auto* const place = in_loop(places, steps);
        if (steps == 0 || place == nullptr) {
          return false;
        }
        site.stack = place->first;
        site.count = place->second.count;
        site.bytes = place->second.bytes;
        site.text = fmt::format("cached segments were given back {} times in {} steps, {} bytes",
                                site.count, steps, site.bytes);
        return true;
      });
  if (cases.empty()) {
    return {};
  }
  Finding finding = allocator_finding(run, "memory.cache-flush-in-loop", cases);
  const AllocatorCase& worst = cases.front();
  finding.title = fmt::format(
      "the cache of PyTorch's allocator on {} is emptied in the loop, {} times on "
      "rank {}{}",
      ranks_text(finding.culprits), worst.site.count, worst.site.rank.value, at_place(finding));
  finding.values = {{"flush_count", static_cast<int64_t>(worst.site.count)},
                    {"freed_bytes", signed_bytes(worst.site.bytes)}};
  finding.advice = advice_for(run.processes[worst.site.process], worst.site.stack);
  return {finding};
}

}  // namespace traintrace
