// What the sum of single numbers can be, in whatever order they are added: far less than what
// bounds for whole buffers leave room for (sum_limits.h).
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/numbers/checks.h"
#include "analyzer/numbers/sum_limits.h"

namespace traintrace {

// Of an element of a result that it cannot be.
struct ImpossibleElement {
  uint64_t index;
  double value;
  double least, most;  // that it can be
};

// Of the first such one.  None: each is possible, or not known: the rows of a sketch have single
// elements only where there are no more elements than rows.
std::optional<ImpossibleElement> impossible_element(const Checks& checks, const GivenSums& given,
                                                    const Check& result);

}  // namespace traintrace
