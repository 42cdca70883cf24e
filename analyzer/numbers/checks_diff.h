// Two runs of one job: the first checked operation whose data differ.
#pragma once

#include <optional>

#include "analyzer/numbers/checks.h"
#include "analyzer/numbers/numbers_diff.h"

namespace traintrace {

struct ChecksDiff {
  std::optional<ValueDiff> first;  // none: all that both have are the same
  size_t same = 0;                 // operations that are, up to it
};

// By communicators of the same ranks, and sequences.  Not beyond operations that are different
// calls.  The first is one before which no rank of it gave or got anything that differs.
ChecksDiff diff_checks(const Run& run_a, const Checks& a, const Run& run_b, const Checks& b);

}  // namespace traintrace
