// What would come next in a program, by its own earlier steps.
#pragma once

#include <cstddef>
#include <vector>

#include "analyzer/match/program.h"

namespace traintrace {

// The calls of `program`, and `more` further ones: those that came after the same calls before, in
// the step that was most like this one.  None are added where nothing has come again.
std::vector<Call> foreseen(const Program& program, size_t more);

// The call at `at` has been made before, as the first of a step: the job goes back to its line from
// further down, in its greatest loop.  Where lines do not tell: it is the first of all calls that
// come again.
bool begins_step(const ProcessTrace& trace, const Program& program, size_t at);

}  // namespace traintrace
