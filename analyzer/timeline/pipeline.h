// Stages of a pipeline: ranks that hand on what they compute to the next, and get gradients back
// (docs/findings.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// How a rank reaches a neighbour.
struct StageLink {
  uint64_t communicator = 0;
  int32_t rank = -1, peer = -1;  // in it
};

struct PipelineStage {
  int stage = 0;   // from 0
  int stages = 0;  // of its pipeline
  // Neighbours; the first has no previous one, the last no next one.
  std::optional<StageLink> previous, next;
  // In each step; none: they cannot be counted for certain.
  std::optional<int64_t> micro_batches;
};

// For each timeline, in their order: its place in a chain whose ranks are all there.  None where
// messages go round or to several, or where it cannot be known.
std::vector<std::optional<PipelineStage>> find_stages(std::span<const Timeline> timelines);

// How long nothing was computed for want of a neighbour: kernels that send to or receive from one,
// and idle time before such a kernel that is not the host's.  `work`: of one device, by start.
int64_t bubble_ns(const Timeline& timeline, const PipelineStage& stage,
                  std::span<const GpuWork> work);

// What a schedule of all forward passes of a step and then all backward ones, or of one forward,
// one backward (GPipe, 1F1B), leaves idle where all stages take equally long; of the step.
double schedule_share(int stages, int64_t micro_batches);

}  // namespace traintrace
