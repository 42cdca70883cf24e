#include "analyzer/memory/allocator/device_memory.h"

#include <algorithm>
#include <iterator>

#include "analyzer/memory/blocks.h"
#include "analyzer/model/elapsed.h"

namespace traintrace {
namespace {

constexpr uint64_t kMostOfSmall = uint64_t{1} << 20;  // that is_for_small serves
constexpr size_t kMostKept = 4096;

void disagree(BookDisagreement& difference, TimeNs time, uint64_t seen, uint64_t said) {
  if (seen != said && difference.reports++ == 0) {
    difference.first = time;
    difference.seen = seen;
    difference.said = said;
  }
}

template <class T>
void keep(std::vector<T>& list, const T& entry) {
  if (list.size() < kMostKept) {
    list.push_back(entry);
  }
}

}  // namespace

void DeviceMemory::hold_segment(uint64_t address, uint64_t bytes, bool piece) {
  history_.placed = replay_.map(address, bytes, piece ? bytes : 0) && history_.placed;
  changed(address, bytes);
}

void DeviceMemory::hold_block(uint64_t address, const UsedBlock& block) {
  history_.placed = replay_.allocate(address, block) && history_.placed;
  changed(address, block.bytes);
}

void DeviceMemory::see(const AllocatorEvent& event) {
  Thread& thread = threads_[event.thread];
  switch (event.act) {
    case AllocatorAct::kTake:
      return take(event, thread);
    case AllocatorAct::kGive:
      return give(event, thread);
    case AllocatorAct::kMap:
      return map(event, thread);
    case AllocatorAct::kRefused:
      end_flush(thread);
      thread.refused = thread.refused == 0 ? event.time : thread.refused;
      return;
    case AllocatorAct::kFailed:
      thread = {};
      return;
    case AllocatorAct::kUnmap:
      return unmap(event, thread);
    case AllocatorAct::kMark:
      pass(event.address);  // it is used again, so what it stood for is over
      thread.stream = thread.marks.empty() ? event.stream : thread.stream;
      thread.marks.push_back(event.address);
      return;
    case AllocatorAct::kPassed:
      return pass(event.address);
  }
}

void DeviceMemory::take(const AllocatorEvent& event, Thread& thread) {
  if (thread.refused != 0 && !thread.mapped.empty()) {
    keep(history_.retries, {thread.refused, elapsed(thread.refused, event.time), event.stack,
                            event.bytes, thread.unmapped});
  }
  if (thread.refused == 0) {
    end_flush(thread);
  }
  forget_pending(event.address, event.bytes);
  const bool missed = !thread.mapped.empty();
  const CacheMiss miss = missed ? miss_of(event, thread.mapped) : CacheMiss{};
  thread = {};
  if (!replay_.allocate(event.address, {event.bytes, event.time, event.stack})) {
    history_.placed = false;
  }
  changed(event.address, event.bytes);
  if (missed) {
    note_miss(miss);
  }
  if (history_.reports + 1 == looked_at_) {
    history_.worst = replay_.now();
    note_pins();
  }
  if (event.allocated > history_.peak_allocated) {
    history_.peak_allocated = event.allocated;
    history_.peak_time = event.time;
  }
  history_.peak_reserved = std::max(history_.peak_reserved, event.reserved);
  compare(event);
}

void DeviceMemory::give(const AllocatorEvent& event, Thread& thread) {
  end_flush(thread);
  const auto block = replay_.blocks().find(event.address);
  const UsedBlock freed = block != replay_.blocks().end() ? block->second : UsedBlock();
  if (!replay_.release(event.address)) {
    history_.placed = false;
  }
  changed(event.address, freed.bytes);
  if (!thread.marks.empty()) {
    add_pending(event, thread, freed.stack);
  }
  thread = {};
  compare(event);
}

void DeviceMemory::add_pending(const AllocatorEvent& event, const Thread& thread, uint32_t stack) {
  forget_pending(event.address, event.bytes);  // in damaged traces
  pending_[event.address] = {event.bytes, thread.marks.size(), event.time, thread.stream,
                             stack,       thread.marks};
  by_age_.emplace(event.time, event.address);
  pending_bytes_ += event.bytes;
  changed(event.address, event.bytes);
  for (const uint64_t mark : thread.marks) {
    waiting_.emplace(mark, event.address);
  }
  if (pending_bytes_ > history_.peak_pending) {
    const PendingBlock& oldest = pending_.at(by_age_.begin()->second);
    history_.peak_pending = pending_bytes_;
    history_.peak_pending_time = event.time;
    history_.pending_stream = oldest.stream;
    history_.pending_stack = oldest.stack;
  }
}

void DeviceMemory::map(const AllocatorEvent& event, Thread& thread) {
  if (thread.refused == 0) {
    end_flush(thread);
  }
  if (!replay_.map(event.address, event.bytes, event.piece ? event.bytes : 0)) {
    history_.placed = false;
  }
  changed(event.address, event.bytes);
  thread.mapped.push_back({event.address, event.bytes});
}

void DeviceMemory::unmap(const AllocatorEvent& event, Thread& thread) {
  const uint64_t before = replay_.reserved();
  if (!replay_.unmap(event.address, event.bytes)) {
    history_.placed = false;
    return;
  }
  forget_pending(event.address, before - replay_.reserved());
  changed(event.address, before - replay_.reserved());
  thread.unmapped_time = thread.unmapped == 0 ? event.time : thread.unmapped_time;
  thread.unmapped_stack = thread.unmapped == 0 ? event.stack : thread.unmapped_stack;
  thread.unmapped += before - replay_.reserved();
}

void DeviceMemory::end_flush(Thread& thread) {
  if (thread.unmapped != 0 && thread.refused == 0) {
    keep(history_.flushes, {thread.unmapped_time, thread.unmapped_stack, thread.unmapped});
  }
  thread.unmapped = 0;
}

void DeviceMemory::pass(uint64_t event) {
  const auto [first, last] = waiting_.equal_range(event);
  for (auto waiting = first; waiting != last; ++waiting) {
    const auto block = pending_.find(waiting->second);
    if (block != pending_.end() && --block->second.events == 0) {
      remove_pending(block);
    }
  }
  waiting_.erase(first, last);
}

// What still waits for its marks is left.
PendingBlocks::iterator DeviceMemory::remove_pending(PendingBlocks::iterator block) {
  const uint64_t address = block->first;
  const uint64_t bytes = block->second.bytes;
  by_age_.erase({block->second.freed, address});
  pending_bytes_ -= bytes;
  const auto next = pending_.erase(block);
  changed(address, bytes);
  return next;
}

void DeviceMemory::forget_pending(uint64_t address, uint64_t bytes) {
  auto block = pending_.upper_bound(address);
  if (block != pending_.begin() &&
      address - std::prev(block)->first < std::prev(block)->second.bytes) {
    --block;
  }
  while (block != pending_.end() && (block->first < address || block->first - address < bytes)) {
    for (const uint64_t mark : block->second.marks) {
      auto [waiting, last] = waiting_.equal_range(mark);
      while (waiting != last) {
        waiting = waiting->second == block->first ? waiting_.erase(waiting) : std::next(waiting);
      }
    }
    block = remove_pending(block);
  }
}

void DeviceMemory::compare(const AllocatorEvent& event) {
  ++history_.reports;
  disagree(history_.allocated, event.time, replay_.allocated(), event.allocated);
  disagree(history_.reserved, event.time, replay_.reserved(), event.reserved);
}

// Before the block is in its place.
CacheMiss DeviceMemory::miss_of(const AllocatorEvent& event,
                                const std::vector<Extent>& mapped) const {
  CacheMiss miss{.time = event.time, .stack = event.stack, .request = event.bytes};
  for (const Extent& extent : mapped) {
    miss.mapped = sum_of(miss.mapped, extent.bytes);
  }
  const uint64_t held = replay_.reserved() - std::min(replay_.reserved(), miss.mapped);
  if (!history_.placed || held < replay_.allocated() || held - replay_.allocated() < miss.request) {
    return miss;
  }
  const UsableSpace space = holes_.space(replay_, miss.request <= kMostOfSmall, mapped);
  miss.free = space.free;
  miss.largest = space.largest;
  miss.whole = space.whole;
  miss.pending = space.pending;
  miss.largest_if_done = space.largest_if_done;
  miss.reason = miss.largest >= miss.request           ? MissReason::kOther
                : miss.largest_if_done >= miss.request ? MissReason::kPending
                : miss.free < miss.request             ? MissReason::kNeeded
                : miss.whole >= miss.free / 2          ? MissReason::kSizes
                                                       : MissReason::kPieces;
  return miss;
}

void DeviceMemory::note_miss(const CacheMiss& miss) {
  uint64_t& bytes = history_.mapped[static_cast<size_t>(miss.reason)];
  bytes = sum_of(bytes, miss.mapped);
  if (miss.reason != MissReason::kNeeded) {
    keep(history_.misses, miss);
  }
  if (miss.reason == MissReason::kPieces && miss.free > most_pieces_) {
    most_pieces_ = miss.free;
    worst_report_ = history_.reports + 1;
  }
}

// Blocks in segments that are neither full nor empty, by stack.
void DeviceMemory::note_pins() {
  std::map<uint32_t, uint64_t> bytes;
  for (const auto& [begin, segment] : replay_.segments()) {
    const auto first = replay_.blocks().lower_bound(begin);
    uint64_t used = 0;
    auto last = first;
    for (; last != replay_.blocks().end() && last->first - begin < segment.bytes; ++last) {
      used += last->second.bytes;
    }
    for (auto block = first; used < segment.bytes && block != last; ++block) {
      bytes[block->second.stack] += block->second.bytes;
    }
  }
  history_.pins.assign(bytes.begin(), bytes.end());
  std::stable_sort(history_.pins.begin(), history_.pins.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

AllocatorHistory DeviceMemory::finish() {
  for (auto& [serial, thread] : threads_) {
    end_flush(thread);
  }
  return std::move(history_);
}

}  // namespace traintrace
