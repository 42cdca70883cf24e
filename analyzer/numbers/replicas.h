// Values that ranks have in common, step by step, until one rank has another one: what replicas of
// a model do, and what is reduced over all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/model/ids.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

// What one rank had at one place, in the order in which it had it.  Owned by the caller; the spans
// have the same length, `numbers` may be empty: the values are hashes.
struct ReplicaSeries {
  Rank rank;
  std::span<const uint64_t> values;  // equal for equal data
  std::span<const double> numbers;   // the same as numbers
};

struct Drift {
  size_t equal = 0;           // steps before it in which all had the same
  std::vector<size_t> first;  // in each series: its value of the first step that differs
  std::vector<Ranks> sides;   // who had the same then, most ranks first
  size_t differing = 0;       // steps that differ, in a row, of those that all have
  bool is_over = false;       // after them all have the same again
  std::optional<Rank> odd;    // in each of these steps all others, two or more, had the same
  bool is_rounding = false;   // numbers never differ by more than kReplicaRounding
};

// None: the ranks were not the same before, in kHabitOfReplicas different values, or are the same
// to the end; or a rank is a step ahead, so that the values of one step follow on another rank. The
// n-th value of one rank need not be that of another, if records were overwritten: which belong
// together is told by the values that they have in common.
std::optional<Drift> drift_of(std::span<const ReplicaSeries> all);

}  // namespace traintrace
