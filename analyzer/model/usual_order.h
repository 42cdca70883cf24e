// What a rank has always done before it did something else.
#pragma once

#include <optional>

#include "analyzer/model/run.h"

namespace traintrace {

// Whether its operation of that communicator that it entered then, or one shortly before, came
// where another had come the times before, at least twice; empty: nothing had come again and again
// in all that is kept.
std::optional<bool> departs_from_habit(const Run& run, Rank rank, size_t communicator,
                                       TimeNs enter);
// The same of the last that it called.
std::optional<bool> departs_from_habit(const Run& run, Rank rank);

}  // namespace traintrace
