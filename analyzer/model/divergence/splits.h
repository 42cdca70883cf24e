// Ranks that did not split a communicator as often, or in the order, as the others: a split is a
// collective of its parent, and NCCL matches the n-th of each with the n-th of all others.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

struct SplitMismatch {
  size_t parent = 0;     // in Run::communicators
  uint32_t ordinal = 0;  // the first split that they left out, or made in excess
  size_t length = 1;     // how many more or less than the others they made
  bool extra = false;
  Ranks deviants;
  Ranks others;   // who agree with one another: most
  Member called;  // who made it, or made the one that was left out: a member of a child
  Ranks waiting;  // in a split, or in what came of one
  TimeNs waited = 0;
};
std::vector<SplitMismatch> split_mismatches(const Run& run);

// Has what goes on in that communicator to do with such a mismatch?
bool is_of_split_mismatch(const Run& run, size_t communicator);
bool is_split_mismatch(const Run& run, const Hang& hang);

}  // namespace traintrace
