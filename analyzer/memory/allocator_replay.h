// An allocator's segments and the blocks within them, followed event by event.
#pragma once

#include <map>

#include "analyzer/memory/free_space.h"

namespace traintrace {

class AllocatorReplay {
 public:
  // False: it contradicts what came before (a second block at one place, a free of nothing), and
  // changes nothing.
  bool map(uint64_t address, uint64_t bytes);
  bool unmap(uint64_t address);
  bool allocate(uint64_t address, uint64_t bytes);
  bool release(uint64_t address);

  FreeSpace now() const;
  uint64_t peak_reserved() const { return peak_reserved_; }
  uint64_t peak_allocated() const { return peak_allocated_; }

 private:
  using Extents = std::map<uint64_t, uint64_t>;  // address, bytes
  static bool is_free(const Extents& extents, uint64_t address, uint64_t bytes);
  bool is_mapped(uint64_t address, uint64_t bytes) const;

  Extents segments_;
  Extents blocks_;
  uint64_t reserved_ = 0, allocated_ = 0;
  uint64_t peak_reserved_ = 0, peak_allocated_ = 0;
};

}  // namespace traintrace
