// How long the steps of a GPU take, and what of them does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/timeline/steps.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

enum class StepsCounted : uint8_t { kFromTheFirst, kAsTheJobCounts };

// On the GPU's time, ns.
struct DeviceSteps {
  std::vector<int64_t> starts;
  std::vector<int64_t> work;  // pieces in each
  StepsCounted counted_by = StepsCounted::kFromTheFirst;

  // Of one of them.
  int64_t number(const Timeline& timeline, size_t index) const {
    return counted_by == StepsCounted::kAsTheJobCounts ? step_number(timeline, index)
                                                       : static_cast<int64_t>(index);
  }
};

// What a step consists of.
struct StepPart {
  std::string name;
  int64_t grew_ns;  // per step
  bool own;         // of this rank, and no waiting for others
};

// By the marks of the job, else by what repeats; empty: not known, or too few.
DeviceSteps steps_by_launch(const Timeline& timeline, int device);

int64_t median_length(std::span<const int64_t> values);

// At the median, and nearly all of the second than nearly all of the first.
bool are_slower(std::span<const int64_t> before, std::span<const int64_t> after);
// Pieces of work in each.
bool are_same_work(std::span<const int64_t> before, std::span<const int64_t> after);

// Per step, of as many steps between two times of the GPU.
std::vector<StepPart> step_parts(const Timeline& timeline, int device, int64_t begin_ns,
                                 int64_t end_ns, size_t steps);

}  // namespace traintrace
