// Sums of gradients, and numbers that the job fetches, that have stayed finite: what is not finite
// elsewhere does them no harm.
#pragma once

#include <vector>

#include "analyzer/numbers/numbers.h"

namespace traintrace {

class FiniteGradients {
 public:
  explicit FiniteGradients(const Checks& checks);

  // How many of one bucket have followed since, all of them finite on all ranks, and none of any
  // other bucket that is not; 0: there are such ones.
  size_t count_since(TimeNs time) const;

 private:
  std::vector<std::vector<TimeNs>> times_;  // of each bucket, ascending
  TimeNs last_bad_ = 0;
};

// How many values of one line a rank has fetched since, none of them NaN or infinite; 0: those of
// some line are, or they are no floats that change.
size_t finite_values_since(const Numbers& numbers, TimeNs time);

}  // namespace traintrace
