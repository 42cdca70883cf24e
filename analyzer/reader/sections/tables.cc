#include "analyzer/reader/sections/tables.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "analyzer/reader/sections/communicators.h"
#include "analyzer/reader/sections/elements.h"
#include "analyzer/reader/sections/open_ranges.h"
#include "analyzer/reader/sections/out_of_memory.h"

namespace traintrace {
namespace {

std::string text_of(const char* chars, size_t size) {
  return std::string(chars, std::find(chars, chars + size, '\0'));
}

void read_losses(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kStats);
  if (section == nullptr) {
    return;
  }
  read_elements<uint64_t>(
      context.file, *section, [](uint64_t count) { return count != 0; },
      [](uint64_t, uint64_t) { return true; },
      [&](uint64_t index, uint64_t count) {
        const StatRow* const row = context.schema.stat(static_cast<uint32_t>(index));
        const StatRow stat =
            row != nullptr ? *row : StatRow{"stat#" + std::to_string(index), "warning"};
        context.trace.losses.push_back({stat.name, count, stat.severity});
      });
}

ThreadText thread_text(ReadContext& context, const format::Thread& from) {
  const TraceClock& clock = context.clock;
  ThreadText thread;
  thread.serial = from.serial;
  thread.tid = from.tid;
  thread.name = text_of(from.name, sizeof from.name);
  thread.started = clock.ns(from.started_ticks);
  thread.ended = clock.ns(from.ended_ticks);
  thread.events = from.events;
  thread.dropped = from.dropped;
  for (int layer = 0; layer < 2; ++layer) {
    const format::OpenCall& open = from.open[layer];
    if (open.enter_ticks != 0) {
      thread.open[layer] = {clock.ns(open.enter_ticks), context.schema.call(open.call), open.stack};
    }
  }
  thread.last_call_time = clock.ns(from.last_call_ticks);
  thread.last_query_time = clock.ns(from.last_query_ticks);
  thread.queries = from.queries;
  thread.folded = from.folded;
  if (from.last_call_ticks != 0) {
    thread.last_call = context.schema.call(from.last_call);
  }
  thread.last_stack = from.last_stack;
  thread.group_depth = from.group_depth;
  thread.group_stack = from.group_depth == 0 ? 0 : from.group_stack;
  return thread;
}

void read_threads(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kThreads);
  if (section == nullptr) {
    return;
  }
  read_elements<format::Thread>(
      context.file, *section, [](const format::Thread& thread) { return thread.serial != 0; },
      [](const format::Thread& a, const format::Thread& b) {
        return a.serial == b.serial && a.open[0].enter_ticks == b.open[0].enter_ticks &&
               a.open[1].enter_ticks == b.open[1].enter_ticks;
      },
      [&](uint64_t, const format::Thread& thread) {
        context.trace.threads.push_back(thread_text(context, thread));
      });
  std::stable_sort(context.trace.threads.begin(), context.trace.threads.end(),
                   [](const ThreadText& a, const ThreadText& b) { return a.serial < b.serial; });
}

void read_streams(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kStreams);
  if (section == nullptr) {
    return;
  }
  read_elements<format::Stream>(
      context.file, *section, [](const format::Stream& stream) { return stream.handle_tag != 0; },
      [](const format::Stream& a, const format::Stream& b) {
        return a.handle_tag == b.handle_tag && a.created_ticks == b.created_ticks;
      },
      [&](uint64_t index, const format::Stream& from) {
        context.streams.resize(index + 1);
        StreamText& stream = context.trace.streams.emplace_back();
        context.streams[index] = static_cast<uint32_t>(context.trace.streams.size());
        stream.handle = from.handle_tag - 1;
        stream.device = from.device;
        stream.flags = from.flags;
        stream.issued = from.issued;
        stream.completed = from.completed;
        stream.completed_time = context.clock.ns(from.completed_ticks);
        stream.created = context.clock.ns(from.created_ticks);
        stream.destroyed = context.clock.ns(from.destroyed_ticks);
        stream.stack = from.stack;
      });
}

void read_host_functions(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kHostFunctions);
  if (section == nullptr) {
    return;
  }
  std::vector<HostFunctionText>& into = context.trace.host_functions;
  read_elements<format::HostFunction>(
      context.file, *section,
      [](const format::HostFunction& element) { return element.function != 0; },
      [](const format::HostFunction& a, const format::HostFunction& b) {
        return a.function == b.function && a.enqueued_ticks == b.enqueued_ticks;
      },
      [&](uint64_t, const format::HostFunction& from) {
        const TraceClock& clock = context.clock;
        into.push_back({from.function, clock.ns(from.enqueued_ticks), clock.ns(from.entered_ticks),
                        clock.ns(from.left_ticks), from.position,
                        mapped(context.streams, from.stream), from.stack,
                        context.schema.call(from.call), from.tid, from.device});
      });
  std::stable_sort(
      into.begin(), into.end(),
      [](const HostFunctionText& a, const HostFunctionText& b) { return a.enqueued < b.enqueued; });
}

void read_allocations(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kAllocations);
  if (section == nullptr) {
    return;
  }
  constexpr uint64_t kFreed = 1;
  read_elements<format::Allocation>(
      context.file, *section,
      [](const format::Allocation& allocation) { return allocation.address > kFreed; },
      [](const format::Allocation& a, const format::Allocation& b) {
        return a.address == b.address && a.ticks == b.ticks;
      },
      [&](uint64_t, const format::Allocation& from) {
        AllocationText& allocation = context.trace.allocations.emplace_back();
        allocation.address = from.address;
        allocation.bytes = from.bytes;
        allocation.stream = from.stream;
        allocation.time = context.clock.ns(from.ticks);
        allocation.stack = from.stack;
        allocation.call = context.schema.call(from.call);
        allocation.device = from.device;
      });
  // The table is a hash table: by time says more, and two readings say the same.
  std::stable_sort(context.trace.allocations.begin(), context.trace.allocations.end(),
                   [](const AllocationText& a, const AllocationText& b) {
                     return a.time != b.time ? a.time < b.time : a.address < b.address;
                   });
}

// Those of a table's freed blocks that were freed after its newest allocation.  A loss that is
// fetched at the end allocates the smallest block, and does not count.
class FreedLast {
 public:
  explicit FreedLast(const ReadContext& context) : context_(context) {}

  void see(const format::TensorBlock& block) {
    constexpr uint64_t kSmallest = 512;
    newest_ = block.bytes > kSmallest ? std::max(newest_, block.ticks) : newest_;
    if (format::is_freed(block) && format::freed_ticks(block) > newest_) {
      freed_.push_back(block);
      if (freed_.size() >= most_) {
        drop_older();
        most_ = 2 * std::max(freed_.size(), kMany);
      }
    }
  }

  std::vector<FreedBlockText> finish() {
    drop_older();
    std::vector<FreedBlockText> freed;
    freed.reserve(freed_.size());
    for (const format::TensorBlock& block : freed_) {
      const TraceClock& clock = context_.clock;
      freed.push_back({block.bytes, clock.ns(block.ticks), clock.ns(format::freed_ticks(block)),
                       block.stack, block.device});
    }
    std::stable_sort(
        freed.begin(), freed.end(),
        [](const FreedBlockText& a, const FreedBlockText& b) { return a.time < b.time; });
    return freed;
  }

 private:
  static constexpr size_t kMany = 1 << 12;

  void drop_older() {
    std::erase_if(freed_, [&](const format::TensorBlock& block) {
      return format::freed_ticks(block) <= newest_;
    });
  }

  const ReadContext& context_;
  uint64_t newest_ = 0;
  std::vector<format::TensorBlock> freed_;
  size_t most_ = kMany;
};

void read_tensor_blocks(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kTensorBlocks);
  if (section == nullptr) {
    return;
  }
  std::vector<TensorBlockText>& into = context.trace.tensor_blocks;
  FreedLast freed(context);
  read_elements<format::TensorBlock>(
      context.file, *section, [](const format::TensorBlock& block) { return block.address != 0; },
      [](const format::TensorBlock& a, const format::TensorBlock& b) {
        return a.address == b.address && a.ticks == b.ticks;
      },
      [&](uint64_t, const format::TensorBlock& from) {
        freed.see(from);
        if (!format::is_freed(from)) {
          into.push_back(
              {from.address, from.bytes, context.clock.ns(from.ticks), from.stack, from.device});
        }
      });
  // In place: a stable sort takes as much again.
  std::sort(into.begin(), into.end(), [](const TensorBlockText& a, const TensorBlockText& b) {
    return std::tie(a.time, a.address, a.bytes) < std::tie(b.time, b.address, b.bytes);
  });
  context.trace.freed_blocks = freed.finish();
}

void read_tensor_devices(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kTensorDevices);
  if (section == nullptr) {
    return;
  }
  read_elements<format::TensorDevice>(
      context.file, *section, [](const format::TensorDevice& device) { return device.ticks != 0; },
      [](const format::TensorDevice& a, const format::TensorDevice& b) {
        return a.ticks == b.ticks;
      },
      [&](uint64_t index, const format::TensorDevice& from) {
        const TraceClock& clock = context.clock;
        context.trace.tensor_devices.push_back(
            {static_cast<int>(index), clock.ns(from.ticks), from.allocated, from.reserved,
             from.peak_allocated, from.peak_reserved, clock.ns(from.peak_ticks), from.before,
             from.allocations, from.frees, from.change});
      });
}

}  // namespace

uint32_t mapped(const std::vector<uint32_t>& map, uint64_t reference) {
  return reference != 0 && reference <= map.size() ? map[reference - 1] : 0;
}

uint32_t mapped(const std::unordered_map<uint64_t, uint32_t>& map, uint64_t reference) {
  const auto found = map.find(reference);
  return found == map.end() ? 0 : found->second;
}

void read_tables(ReadContext& context, const ReadOptions& options) {
  read_losses(context);
  read_threads(context);
  read_open_ranges(context);
  read_streams(context);
  read_communicators(context);
  read_host_functions(context);
  read_allocations(context);
  if (options.tensor_blocks) {
    read_tensor_blocks(context);
  }
  read_tensor_devices(context);
  read_out_of_memory(context);
}

}  // namespace traintrace
