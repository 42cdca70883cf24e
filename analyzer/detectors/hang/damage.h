// What could not be read, and what rests on it.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// An input that could not be read may be of a rank of which nothing else is known.  Where all ranks
// and all members of their communicators have traces it is somebody else's, or no trace at all.
bool may_hide_a_rank(const Run& run);

// A part of it that says what the process called, or is in, cannot be read: not only what memory it
// held.
bool are_calls_damaged(const ProcessTrace& trace);

}  // namespace traintrace
