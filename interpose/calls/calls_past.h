// Libraries whose calls to CUDA or NCCL this library never sees, found by looking at what is
// loaded: a copy in a namespace of its own (dlmopen), and callers that the loader bound to a
// vendor's library in spite of the preload (RTLD_DEEPBIND).  They are counted and named as facts;
// nothing is done about them.
#pragma once

#include <cstdint>

#include "interpose/record/thread.h"

namespace traintrace {

// Belongs to the tracer's own thread.
class CallsPast {
 public:
  // Each second; mostly does nothing.
  void look(ThreadState& own) noexcept;

 private:
  struct Places {
    static constexpr int kMost = 8;
    uint64_t address[kMost];
    int count = 0;
    bool has(uint64_t wanted) const noexcept;
    void add(uint64_t another) noexcept;
  };

  bool is_due() noexcept;
  void look_at_mappings(ThreadState& own) noexcept;
  void look_at_mapping(ThreadState& own, const char* line, Places& candidates) noexcept;
  void look_at_callers(ThreadState& own) noexcept;
  void report(ThreadState& own, uint64_t address, const char* path, const char* how) noexcept;

  Places found_ = {};
  Places candidates_ = {};  // seen by the last look, which may have come while they were loaded
  uint64_t seen_loads_ = 0;
  uint32_t seconds_ = 0;  // since something was loaded
  uint32_t looks_ = 0;
};

}  // namespace traintrace
