// Sends and receives, matched by their number per pair and direction.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// Whether `peer` has posted its side of operation number `sequence` from or to `rank`.
bool has_posted(const Run& run, const Member& peer, bool receive, int rank, uint64_t sequence);

// A send or receive that runs, and whose other side is known not to be there.
bool is_unanswered(const Run& run, const Communicator& communicator, const Member& member,
                   const OperationText& operation);

}  // namespace traintrace
