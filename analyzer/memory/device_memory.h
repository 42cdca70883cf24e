// Follows PyTorch's allocator on one device, event by event.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "analyzer/memory/allocator_history.h"

namespace traintrace {

class DeviceMemory {
 public:
  explicit DeviceMemory(int device) { history_.device = device; }

  // There before the first event.
  void hold_segment(uint64_t address, uint64_t bytes, bool piece);
  void hold_block(uint64_t address, const UsedBlock& block);

  void see(const AllocatorEvent& event);
  AllocatorHistory finish();

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
  struct Pending {
    uint64_t bytes = 0;
    size_t events = 0;
    TimeNs freed = 0;
    uint32_t stream = 0;
    uint32_t stack = 0;  // that allocated it: of a free there is none
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
  CacheMiss miss_of(const AllocatorEvent& event, const std::vector<Extent>& mapped) const;
  void look_at_holes(CacheMiss& miss, const std::vector<Extent>& mapped) const;
  void look_at_hole(CacheMiss& miss, uint64_t begin, uint64_t end) const;
  void note_miss(const CacheMiss& miss);
  void note_pins();

  AllocatorHistory history_;
  AllocatorReplay replay_;
  std::unordered_map<uint32_t, Thread> threads_;
  std::map<uint64_t, Pending> pending_;                  // by address
  std::unordered_multimap<uint64_t, uint64_t> waiting_;  // event, address
  uint64_t pending_bytes_ = 0;
  uint64_t most_pieces_ = 0;  // CacheMiss::free of history_.worst
};

}  // namespace traintrace
