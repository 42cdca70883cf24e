// TRAINTRACE_MODE=full: chunks of the ring that threads are done with are packed into a file beside
// the copy of the trace, before they are used again.  By the keeper only.
#pragma once

#include <cstdint>

#include "format/trace_format.h"

namespace traintrace {

class Segments {
 public:
  // False: no memory for it; nothing is kept then.
  bool start(const char* trace_path, format::FileHeader* memory) noexcept;
  bool is_started() const noexcept { return memory_ != nullptr; }
  // What is there to be kept now.  Where the disk does not take it, it stays in the ring and is
  // tried again a second later: what the ring cannot hold so long is overwritten, and counted.
  void drain() noexcept;

 private:
  void go_on() noexcept;
  // Over the ring as large as it is when the walk begins: one that grows meanwhile has its chunks
  // elsewhere, and a chunk that is seen twice would be taken from what is told as lost twice.
  struct Walk {
    uint64_t seen = 0;    // chunks
    uint64_t count = 0;   // of chunks, once it began
    uint64_t first = 0;   // index of the oldest
    bool is_cut = false;  // there was one that did not fit
  };
  struct Released {
    uint64_t index;
    uint64_t ordinal;
    const char* from;
    uint32_t bytes;
    uint32_t records;
  };
  // Chunks that no thread writes any more and that are not kept yet, oldest first.
  bool next_released(Walk& walk, uint64_t room, Released& chunk) const noexcept;
  // After it was copied: the copy is whole.
  bool is_still(const Released& chunk) const noexcept;

  bool write_segment(uint32_t chunks, uint32_t bytes) noexcept;
  void is_in_segment(const Released& chunk) noexcept;
  bool append(const char* bytes, uint64_t count) noexcept;

  char* memory_ = nullptr;  // of zstd, then raw, then packed
  char path_[1024];
  format::FileHeader* trace_;
  const format::Section* events_;
  format::ChunkState* states_;
  uint64_t end_;  // of the last whole segment
  uint64_t inode_;
  uint64_t not_before_ns_;
};

}  // namespace traintrace
