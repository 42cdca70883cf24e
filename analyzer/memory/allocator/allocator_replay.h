// An allocator's segments and the blocks within them, followed event by event.
#pragma once

#include <map>

#include "analyzer/memory/allocator/free_space.h"

namespace traintrace {

struct HeldSegment {
  uint64_t bytes = 0;
  // Of one that is mapped piece by piece: the bytes of a piece.  What touches it and has pieces of
  // the same size is one with it.  0: it came as a whole, and goes as one.
  uint64_t piece = 0;
};

struct UsedBlock {
  uint64_t bytes = 0;
  int64_t time = 0;
  uint32_t stack = 0;
  uint64_t requested = 0;  // 0: as much as it has
};

// What is held beyond what is in use, as a share of that: four points of view that differ widely.
struct Overhead {
  double average = 0;      // over all events
  double at_peak_use = 0;  // when most was in use for the first time
  double at_peak_held = 0;
  double of_peaks = 0;  // of the most held over the most in use
};

class AllocatorReplay {
 public:
  // False: it contradicts what came before (a second block at one place, a free of nothing), and
  // changes nothing.
  bool map(uint64_t address, uint64_t bytes, uint64_t piece = 0);
  bool unmap(uint64_t address, uint64_t bytes = 0);  // 0: of a segment that came as a whole
  bool allocate(uint64_t address, const UsedBlock& block);
  bool release(uint64_t address);

  FreeSpace now() const;
  uint64_t reserved() const { return reserved_; }
  uint64_t allocated() const { return allocated_; }
  uint64_t peak_reserved() const { return peak_reserved_; }
  uint64_t peak_allocated() const { return peak_allocated_; }
  uint64_t unrequested() const { return unrequested_; }  // of the bytes in use
  Overhead overhead() const;
  const std::map<uint64_t, HeldSegment>& segments() const { return segments_; }  // by address
  const std::map<uint64_t, UsedBlock>& blocks() const { return blocks_; }

 private:
  std::map<uint64_t, HeldSegment>::iterator segment_around(uint64_t address, uint64_t bytes);
  double overhead_now() const;
  void note_event();
  void join_next(std::map<uint64_t, HeldSegment>::iterator segment);

  std::map<uint64_t, HeldSegment> segments_;
  std::map<uint64_t, UsedBlock> blocks_;
  uint64_t reserved_ = 0, allocated_ = 0;
  uint64_t peak_reserved_ = 0, peak_allocated_ = 0;
  uint64_t unrequested_ = 0;
  uint64_t events_ = 0;  // while something was in use
  double sum_ = 0;       // of their overheads
  double at_peak_use_ = 0, at_peak_held_ = 0;
};

}  // namespace traintrace
