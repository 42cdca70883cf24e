// TRAINTRACE_MODE=full: chunks of the ring that threads are done with are packed into a file beside
// the trace, before they are used again.  By the tracer's own thread only.
#pragma once

#include <cstdint>

#include "format/trace_format.h"

namespace traintrace {

class Segments {
 public:
  // False: no memory for it; nothing is kept then.
  bool start(const char* trace_path, const format::FileHeader* file) noexcept;
  bool is_started() const noexcept { return memory_ != nullptr; }
  // What is there to be kept now.  Where the disk does not take it, it stays in the ring and is
  // tried again a second later: what the ring cannot hold so long is overwritten, and counted.
  void drain() noexcept;

 private:
  bool write_segment(uint32_t chunks, uint32_t bytes) noexcept;
  bool append(const char* bytes, uint64_t count) noexcept;

  char* memory_ = nullptr;  // of zstd, then raw, then packed
  char path_[1024];
  const format::FileHeader* file_;
  uint64_t end_;  // of the last whole segment
  uint64_t inode_;
  uint64_t not_before_ns_;
};

}  // namespace traintrace
