// When each rank began to give data that is not finite, and who had brought it such data before.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "analyzer/model/ids.h"
#include "analyzer/numbers/checks.h"
#include "analyzer/thresholds.h"

namespace traintrace {

using BucketInputs =
    std::vector<std::span<const Check>>;  // of one rank, by time: all parts of each

// A rank's data from which on it gave nothing finite of that bucket any more.
struct Onset {
  const Check* check = nullptr;
  size_t number = 0;  // in `inputs`
  BucketInputs inputs;
  bool certain = false;  // all that brought it data before was checked, for some steps

  TimeNs time() const { return check->time; }
  size_t length() const { return inputs.size() - number; }
  bool is_lasting() const { return length() >= kFewestNonfinite; }
};

struct NonfiniteRun {
  std::map<Rank, Onset> origins;
  Ranks receivers;  // which first got it from others
};

// Of all ranks.  `skips`: a loss scaler skipped the last steps.
NonfiniteRun nonfinite_histories(const Checks& checks, bool skips);

}  // namespace traintrace
