// What a rank has always done before it did something else.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Whether its operation of that communicator that it entered then, or one shortly before, came
// where another had come the times before, at least twice; empty: nothing had come again and again
// in all that is kept.
std::optional<bool> departs_from_habit(const Run& run, Rank rank, size_t communicator,
                                       TimeNs enter);
// The same of the last that it called.
std::optional<bool> departs_from_habit(const Run& run, Rank rank);

// Whether it departs as above, to a call that it has made at least twice before: one that comes to
// something new may be the one that goes on as it should, out of a loop that another turns once
// more.
bool departs_to_known(const Run& run, Rank rank, size_t communicator, TimeNs enter);
bool departs_to_known(const Run& run, Rank rank);

// Whether its operation of `enter` came directly behind one, of any communicator, behind which none
// of those of `usual` came, of at least two of which that is known.
bool is_behind_another(const Run& run, Rank rank, TimeNs enter, const std::vector<TimeNs>& usual);

}  // namespace traintrace
