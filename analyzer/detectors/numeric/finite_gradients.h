// Sums of gradients that have stayed finite: what is not finite elsewhere does them no harm.
#pragma once

#include <vector>

#include "analyzer/numbers/checks.h"

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

}  // namespace traintrace
