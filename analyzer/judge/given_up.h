// Ranks that ended by themselves while they waited, before that had lasted as long as a hang takes:
// a time limit of the job's own, most likely.  Then what ended them is that others did not come.
#pragma once

#include <map>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Of each such rank the longest such wait; none: its host was not waiting, or not for long enough
// to tell that from a moment between two operations.  `waits`: all that there are, with those that
// ended in them.
std::map<Rank, GivenUp> find_given_up(const Run& run, const std::vector<Wait>& waits);

}  // namespace traintrace
