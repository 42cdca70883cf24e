// TRAINTRACE_COLLECT: the keeper packs the trace (format/pack.h) into a shared folder, at the end
// of the process, after an abort, and when it has recorded nothing for a while, which may be a
// hang: a container is killed with all that is in it, its keeper too.
//
// Each time in a child of the keeper: a file server that is gone holds up that child, for as long
// as it likes, and nothing else.  One at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "format/trace_format.h"

namespace traintrace {

class Collecting {
 public:
  // `memory` is mapped as a whole.  Null in its header's `collect`: nothing is ever done.
  explicit Collecting(format::FileHeader* memory) noexcept : memory_(*memory) {}

  // Once in each round.
  void look() noexcept;
  // The process has ended; `path` is that of its final copy, empty where there is none.  Whether
  // that worked is in the header of `memory` afterwards, unless a file server takes longer.
  void finish(const char* path) noexcept;

 private:
  bool is_due() noexcept;
  bool child_is_at_work() noexcept;
  void wait_for_child(uint64_t for_ns) noexcept;
  // What the child does, and returns, is errno or 0.
  template <class Work>
  void in_child(Work work) noexcept;

  format::FileHeader& memory_;
  pid_t child_ = 0;
  bool probed_ = false;
  bool packing_ = false;     // what the child does
  uint64_t records_ = 0;     // written by all threads
  uint64_t changed_ns_ = 0;  // when that changed last
  uint64_t packed_ns_ = 0;   // 0: never
  uint64_t packed_records_ = 0;
  uint32_t aborted_ = 0;  // communicators
};

}  // namespace traintrace
