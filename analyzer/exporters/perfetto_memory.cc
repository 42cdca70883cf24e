#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/exporters/perfetto.h"
#include "analyzer/memory/holders/owner_text.h"
#include "analyzer/memory/memory_life.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

std::string place_text(const LiveBlock& block) {
  return !on_device(block.kind) ? "host"
         : block.device < 0     ? "a device"
                                : fmt::format("device {}", block.device);
}

class MemoryCounters {
 public:
  MemoryCounters(const ProcessTrace& trace, uint64_t process, PerfettoWriter& out)
      : trace_(trace), process_(process), out_(out) {}

  void change(const LiveBlock& block, bool taken, TimeNs time) {
    if (block.holder == Holder::kSegment) {
      add(place_text(block) + ": held by PyTorch's allocator", block, taken, time);
    } else if (is_in_use(block)) {
      add(place_text(block) + ": in use", block, taken, time);
      add(place_text(block) + ": " + owner_text(trace_, block), block, taken, time);
    }
  }

 private:
  struct Counter {
    uint64_t track = 0;
    uint64_t bytes = 0;
  };

  void add(const std::string& name, const LiveBlock& block, bool taken, TimeNs time) {
    const auto [found, is_new] = counters_.try_emplace(name);
    Counter& counter = found->second;
    if (is_new) {
      counter.track = out_.counter_of_bytes(name, process_);
    }
    counter.bytes += taken ? block.bytes : uint64_t{0} - block.bytes;
    out_.count(counter.track, time, static_cast<int64_t>(counter.bytes));
  }

  const ProcessTrace& trace_;
  uint64_t process_;
  PerfettoWriter& out_;
  std::map<std::string, Counter> counters_;
};

}  // namespace

void add_memory(const ProcessTrace& trace, uint64_t process, PerfettoWriter& out) {
  const MemoryLife life = memory_life(trace);
  const TimeNs start = life.events.empty() ? trace.last_alive : life.events.front().time;
  MemoryCounters counters(trace, process, out);
  for (const LiveBlock& block : life.before) {
    counters.change(block, true, start);
  }
  for (const MemoryEvent& event : life.events) {
    counters.change(event.block, event.taken, event.time);
  }
  for (const OutOfMemoryText& failure : trace.out_of_memory) {
    out.instant(process, failure.time,
                fmt::format("out of memory: {} bytes wanted by {}", failure.bytes,
                            call_name(trace, failure.call)));
  }
}

}  // namespace traintrace
