// Which edit of its calls makes a rank agree with others, by what both did in earlier steps too.
#pragma once

#include "analyzer/match/edits.h"

namespace traintrace {

// As cheapest_edit().  A rank that waits has not called what comes next, but what it is can be
// foreseen: so it is seen that another one left out all that remained of its step, or that a call
// of which nothing agrees behind it came instead of one that was left out.
CallEdit edit_by_habit(const Run& run, const Program& own, size_t own_at, const Program& normal,
                       size_t normal_at);

}  // namespace traintrace
