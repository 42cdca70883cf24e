// What the sum of what the ranks gave can be, in whatever order NCCL adds.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analyzer/numbers/checks.h"

namespace traintrace {

// What all ranks gave for one result.
struct GivenSums {
  int ranks = 0;
  double sum = 0, absolute_sum = 0, largest = 0, norm = 0;
  std::vector<const Check*> of_ranks;
};
// Of one part of the inputs; none: a rank's is left out or not finite.
std::optional<GivenSums> given_sums(std::span<const Check> inputs, uint32_t part);

// A result of ncclAvg is divided by the number of ranks.
double scale_of(const GivenSums& given, const Check& result);

// What a result may be at most, and how far its sum may lie from `sum`.
struct SumLimits {
  double sum, deviation, largest, norm;
};
// None: it may overflow, or anything is possible with so many ranks and so few digits.
std::optional<SumLimits> limits_of(const GivenSums& given, const Check& result);

// How far the result lies from the sum of the inputs, by the sketches of all of them
// (format/payload_check.h).
struct SketchDeviation {
  double norm;           // of the difference, as estimated from the signed sums
  double over_rounding;  // above 1: more than rounding explains
};
// If the data of `without` are left out of the sum.  None: a sketch is missing.  `result` must have
// limits.
std::optional<SketchDeviation> sketch_deviation(const Checks& checks, const GivenSums& given,
                                                const Check& result,
                                                const Check* without = nullptr);

}  // namespace traintrace
