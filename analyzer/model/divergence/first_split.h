// Where members of a communicator first differ, by their hashes or by what they called.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/model/sequences.h"

namespace traintrace {

using SequenceGroup = std::vector<const Sequence*>;

// Where members first differ, and who has what there.
struct Split {
  uint64_t number = 0;
  uint64_t from = 0;                  // the difference is not before that
  std::vector<SequenceGroup> groups;  // the largest first, then by rank
};

struct Comparison {
  bool by_hash = true;
  uint64_t after = 0;  // all up to there has been dealt with
};

std::optional<Split> first_split(const SequenceGroup& members, const Comparison& how);

// Of as many against as many, those are called deviant who do what nobody did before.
void order_by_habit(Split& split);

// Of whom most is known.
const Sequence* longest(const SequenceGroup& group);

}  // namespace traintrace
