// Which recorded stacks are one and the same way through the job's code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// CPython rewrites its instructions as it runs them, so the first calls of a line come from other
// addresses of the interpreter than later ones: two native stacks of one Python stack.  What lies
// within the interpreter is told by the Python frames, and does not count.
class CallPaths {
 public:
  explicit CallPaths(const ProcessTrace& trace);

  // That of its path which was asked for first.
  uint32_t of(uint32_t stack);

 private:
  using Frames = std::vector<uint64_t>;  // native ones, up to the interpreter
  struct Path {
    uint32_t stack = 0;
    Frames frames;
  };

  struct Range {
    uint64_t begin = 0, end = 0;
  };
  bool is_in_interpreter(uint64_t address) const;

  const ProcessTrace& trace_;
  std::vector<Range> interpreter_;
  std::unordered_map<uint32_t, uint32_t> known_;
  std::unordered_map<uint64_t, std::vector<Path>> paths_;  // by a hash of their frames
};

}  // namespace traintrace
