// What a rank has always done before it did something else.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/model/run.h"

namespace traintrace {

// Whether its collective `sequence` of that communicator came where another operation had followed
// each time before, at least twice; empty: it had no such habit, in all that is kept.
std::optional<bool> departs_from_habit(const Run& run, Rank rank, size_t communicator,
                                       uint64_t sequence);
// The same of the last that it called.
std::optional<bool> departs_from_habit(const Run& run, Rank rank);

}  // namespace traintrace
