#include "analyzer/exporters/snapshot_state.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/memory/allocator/pending_frees.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

constexpr uint64_t kSmallSegment = uint64_t{2} << 20;  // of PyTorch
constexpr uint64_t kLargestSmall = uint64_t{1} << 20;

bool is_shown(const LiveBlock& block) {
  constexpr uint64_t kMostExact = uint64_t{1} << 53;  // viewers count in doubles
  return on_device(block.kind) && block.bytes != 0 && block.address < kMostExact &&
         block.bytes < kMostExact - block.address;
}

int device_of(const LiveBlock& block) {
  return std::max(block.device, 0);
}

// Segments or blocks of one device, by address; they do not overlap.
class Extents {
 public:
  bool add(const LiveBlock& block) {
    const auto next = all_.lower_bound(block.address);
    if ((next != all_.end() && next->first < block.address + block.bytes) ||
        (next != all_.begin() && end_of(*std::prev(next)) > block.address)) {
      return false;
    }
    all_.emplace_hint(next, block.address, block.bytes);
    return true;
  }
  bool erase(const LiveBlock& block) { return has(block) && all_.erase(block.address) != 0; }
  bool has(const LiveBlock& block) const {
    const auto found = all_.find(block.address);
    return found != all_.end() && found->second == block.bytes;
  }
  bool touches(const LiveBlock& block) const {
    const auto next = all_.lower_bound(block.address);
    return (next != all_.end() && next->first < block.address + block.bytes) ||
           (next != all_.begin() && end_of(*std::prev(next)) > block.address);
  }
  // Whole, by one or several that touch.
  bool cover(const LiveBlock& block) const {
    uint64_t at = block.address;
    auto next = all_.upper_bound(at);
    while (at < block.address + block.bytes) {
      if (next == all_.begin() || std::prev(next)->first > at || end_of(*std::prev(next)) <= at) {
        return false;
      }
      at = end_of(*std::prev(next));
      next = next == all_.end() ? next : std::next(next);
    }
    return true;
  }

 private:
  static uint64_t end_of(const std::pair<const uint64_t, uint64_t>& extent) {
    return extent.first + extent.second;
  }
  std::map<uint64_t, uint64_t> all_;  // address, bytes
};

struct Device {
  Extents segments;
  Extents blocks;
};

class StateBuilder {
 public:
  explicit StateBuilder(const ProcessTrace& trace)
      : life_(memory_life(trace)), pending_(pending_frees(trace)) {
    for (const AllocationText& allocation : trace.allocations) {
      if (call_name(trace, allocation.call).starts_with("cuMemAddressReserve")) {
        reserved_.emplace(allocation.address, allocation.bytes);
      }
    }
  }

  SnapshotState build() {
    std::vector<SnapshotEvent> events = unfolded();
    add_segments();
    add_blocks();
    join();
    std::reverse(events.begin(), events.end());
    std::erase_if(events, [&](const SnapshotEvent& event) { return !fits(event); });
    std::reverse(events.begin(), events.end());
    state_.events = std::move(events);
    return std::move(state_);
  }

 private:
  // A call's memory is a segment with one block.
  void add_segments() {
    for (const LiveBlock& block : life_.live) {
      if (block.holder == Holder::kBlock || !is_shown(block)) {
        continue;
      }
      Device& device = devices_[device_of(block)];
      if (!device.segments.add(block)) {
        continue;
      }
      const bool one_block = block.holder == Holder::kCall;
      state_.segments.push_back(
          {block, one_block ? block.bytes <= kLargestSmall : block.bytes == kSmallSegment, {}, {}});
      if (one_block) {
        device.blocks.add(block);
        state_.segments.back().blocks.push_back(block);
      }
    }
    sort();
  }

  void add_blocks() {
    std::vector<LiveBlock> strays;
    for (const LiveBlock& block : life_.live) {
      if (block.holder != Holder::kBlock || !is_shown(block)) {
        continue;
      }
      Device& device = devices_[device_of(block)];
      if (device.segments.cover(block) && !device.blocks.touches(block)) {
        device.blocks.add(block);
        blocks_.push_back(block);
      } else if (!device.segments.touches(block)) {
        strays.push_back(block);
      }
    }
    for (const LiveBlock& block : freed_) {
      Device& device = devices_[device_of(block)];
      if (device.segments.cover(block) && !device.blocks.touches(block)) {
        device.blocks.add(block);
        blocks_.push_back(block);
        pending_blocks_.emplace(device_of(block), block.address);
      }
    }
    // The segment was made before the tracer came, or is not in the table.
    for (const LiveBlock& block : strays) {
      Device& device = devices_[device_of(block)];
      if (device.segments.add(block)) {
        device.blocks.add(block);
        state_.segments.push_back({block, block.bytes <= kLargestSmall, {block}, {}});
      }
    }
    sort();
  }

  void sort() {
    std::stable_sort(state_.segments.begin(), state_.segments.end(),
                     [](const SnapshotSegment& a, const SnapshotSegment& b) {
                       return std::pair(device_of(a.memory), a.memory.address) <
                              std::pair(device_of(b.memory), b.memory.address);
                     });
  }

  // What is mapped side by side in one range of addresses is one segment; then the blocks go in.
  void join() {
    std::vector<SnapshotSegment> joined;
    for (SnapshotSegment& segment : state_.segments) {
      LiveBlock* const last = joined.empty() ? nullptr : &joined.back().memory;
      if (last != nullptr && last->mapped && segment.memory.mapped &&
          device_of(*last) == device_of(segment.memory) &&
          last->address + last->bytes == segment.memory.address &&
          range_of(last->address) == range_of(segment.memory.address)) {
        last->bytes += segment.memory.bytes;
      } else {
        joined.push_back(std::move(segment));
      }
    }
    auto segment = joined.begin();
    std::stable_sort(blocks_.begin(), blocks_.end(), [](const LiveBlock& a, const LiveBlock& b) {
      return std::pair(device_of(a), a.address) < std::pair(device_of(b), b.address);
    });
    for (const LiveBlock& block : blocks_) {
      while (
          std::pair(device_of(segment->memory), segment->memory.address + segment->memory.bytes) <=
          std::pair(device_of(block), block.address)) {
        ++segment;
      }
      segment->blocks.push_back(block);
    }
    for (SnapshotSegment& each : joined) {
      for (const LiveBlock& block : each.blocks) {
        each.pending.push_back(pending_blocks_.contains({device_of(block), block.address}));
      }
    }
    state_.segments = std::move(joined);
  }

  uint64_t range_of(uint64_t address) const {
    const auto next = reserved_.upper_bound(address);
    const bool inside =
        next != reserved_.begin() && address - std::prev(next)->first < std::prev(next)->second;
    return inside ? std::prev(next)->first : 0;
  }

  const PendingFree* pending_of(const MemoryEvent& event) const {
    const std::tuple key(event.block.device, event.block.address, event.time);
    const auto found = std::lower_bound(pending_.begin(), pending_.end(), key,
                                        [](const PendingFree& a, const auto& b) {
                                          return std::tie(a.device, a.address, a.freed) < b;
                                        });
    return found != pending_.end() && std::tie(found->device, found->address, found->freed) == key
               ? &*found
               : nullptr;
  }

  // It stays until streams are done with it.
  void unfold_pending(const MemoryEvent& event, const PendingFree& pending,
                      std::vector<SnapshotEvent>& events) {
    SnapshotEvent half{event.time, event.stack, SnapshotAct::kRequest, false, event.block};
    events.push_back(half);
    if (pending.done == 0) {
      freed_.push_back(event.block);
      return;
    }
    half.act = SnapshotAct::kComplete;
    half.time = pending.done;
    half.stack = 0;
    events.push_back(half);
  }

  std::vector<SnapshotEvent> unfolded() {
    std::vector<SnapshotEvent> events;
    for (const MemoryEvent& event : life_.events) {
      if (!is_shown(event.block)) {
        continue;
      }
      const bool is_block = event.block.holder == Holder::kBlock;
      const PendingFree* const pending = is_block && !event.taken ? pending_of(event) : nullptr;
      if (pending != nullptr) {
        unfold_pending(event, *pending, events);
        continue;
      }
      const bool both = event.block.holder == Holder::kCall;
      const SnapshotEvent one{event.time, event.stack,
                              event.taken ? SnapshotAct::kTake : SnapshotAct::kGive, !is_block,
                              event.block};
      SnapshotEvent inner = one;
      inner.segment = false;
      if (both && !event.taken) {
        events.push_back(inner);
      }
      events.push_back(one);
      if (both && event.taken) {
        events.push_back(inner);
      }
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const SnapshotEvent& a, const auto& b) { return a.time < b.time; });
    return events;
  }

  // From the newest to the oldest; what fits is undone.
  bool fits(const SnapshotEvent& event) {
    Device& device = devices_[device_of(event.block)];
    const bool taken = event.act == SnapshotAct::kTake;
    if (event.segment) {
      return taken ? !device.blocks.touches(event.block) && device.segments.erase(event.block)
                   : device.segments.add(event.block);
    }
    if (event.act == SnapshotAct::kRequest) {
      return device.blocks.has(event.block);
    }
    return taken ? device.blocks.erase(event.block)
                 : device.segments.cover(event.block) && device.blocks.add(event.block);
  }

  const MemoryLife life_;
  const std::vector<PendingFree> pending_;
  std::vector<LiveBlock> freed_;                       // and pending at the end
  std::set<std::pair<int, uint64_t>> pending_blocks_;  // of blocks_: device, address
  std::map<uint64_t, uint64_t> reserved_;
  std::map<int, Device> devices_;
  std::vector<LiveBlock> blocks_;  // of PyTorch's, in segments
  SnapshotState state_;
};

}  // namespace

SnapshotState snapshot_state(const ProcessTrace& trace) {
  return StateBuilder(trace).build();
}

}  // namespace traintrace
