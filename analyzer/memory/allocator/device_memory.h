// Follows PyTorch's allocator on one device, event by event.
#pragma once

#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/memory/allocator/allocator_history.h"
#include "analyzer/memory/allocator/holes.h"

namespace traintrace {

class DeviceMemory {
 public:
  explicit DeviceMemory(int device) { history_.device = device; }

  // There before the first event.
  void hold_segment(uint64_t address, uint64_t bytes, bool piece);
  void hold_block(uint64_t address, const UsedBlock& block);

  void see(const AllocatorEvent& event);
  AllocatorHistory finish();

  // At which report of this device, from 1, memory was missed for want of a piece while most was
  // free; 0: at none.
  uint64_t worst_report() const { return worst_report_; }
  // For a second pass, since to look at all blocks whenever it gets worse would take ever longer:
  // AllocatorHistory::worst and ::pins are those of that report.
  void look_at(uint64_t report) { looked_at_ = report; }

 private:
  // What a thread did since its last report.
  struct Thread {
    std::vector<Extent> mapped;
    std::vector<uint64_t> marks;
    uint32_t stream = 0;  // of the first of these
    TimeNs refused = 0;
    uint64_t unmapped = 0;  // bytes
    TimeNs unmapped_time = 0;
    uint32_t unmapped_stack = 0;
  };
  void take(const AllocatorEvent& event, Thread& thread);
  void give(const AllocatorEvent& event, Thread& thread);
  void map(const AllocatorEvent& event, Thread& thread);
  void unmap(const AllocatorEvent& event, Thread& thread);
  void pass(uint64_t event);
  void compare(const AllocatorEvent& event);
  void add_pending(const AllocatorEvent& event, const Thread& thread, uint32_t stack);
  void end_flush(Thread& thread);
  void forget_pending(uint64_t address, uint64_t bytes);
  PendingBlocks::iterator remove_pending(PendingBlocks::iterator block);
  CacheMiss miss_of(const AllocatorEvent& event, const std::vector<Extent>& mapped) const;
  void changed(uint64_t address, uint64_t bytes) {
    holes_.update(replay_, pending_, address, address + bytes);
  }
  void note_miss(const CacheMiss& miss);
  void note_pins();

  AllocatorHistory history_;
  AllocatorReplay replay_;
  std::unordered_map<uint32_t, Thread> threads_;
  PendingBlocks pending_;
  Holes holes_;
  std::set<std::pair<int64_t, uint64_t>> by_age_;        // of pending_: when it was freed, address
  std::unordered_multimap<uint64_t, uint64_t> waiting_;  // event, address
  uint64_t pending_bytes_ = 0;
  uint64_t most_pieces_ = 0;  // CacheMiss::free at worst_report_
  uint64_t worst_report_ = 0;
  uint64_t looked_at_ = 0;
};

}  // namespace traintrace
