// Messages that differ before those that the tables hold.
#pragma once

#include <vector>

#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/run.h"

namespace traintrace {

// What is in the event records of both ranks; adds it to Run::divergences.
void find_older_messages(Run& run, const ReadEvents& read_events);

// By their hashes they differ, and in what cannot be said.
struct UnknownMessages {
  size_t communicator = 0;  // in Run::communicators
  Rank from;
  Rank to;
  uint64_t before = 0;  // the number of the first that can be compared
};
std::vector<UnknownMessages> unknown_messages(const Run& run);

}  // namespace traintrace
