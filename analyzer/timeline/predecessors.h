// What a piece of work had to wait for on the GPU's side: what stood before it on its stream, and
// what its stream was told to wait for.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

struct Predecessor {
  bool known = false;             // all that it waited for
  bool peers = false;             // and for other ranks, with no kernel of NCCL
  const GpuWork* work = nullptr;  // of these the last to end; null: it was the first
};

class Predecessors {
 public:
  // `timeline` outlives it.
  explicit Predecessors(const Timeline& timeline);

  // Of work of the timeline, or a part of such a piece.
  Predecessor of(const GpuWork& work) const;

 private:
  using Stream = std::pair<int32_t, int32_t>;  // device, stream
  const GpuWork* before_on_stream(const GpuWork& work) const;

  const Timeline& timeline_;
  std::map<Stream, std::vector<const GpuWork*>> streams_;     // by start
  std::unordered_map<uint64_t, const GpuWork*> last_to_end_;  // of those waited for
};

}  // namespace traintrace
