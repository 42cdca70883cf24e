// Messages are exchanged in batches, all of one shape, and one of them lacks a send.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// A rank waits in a receive that its peer did not answer, and that peer sent it a message in each
// batch (ncclGroupStart to ncclGroupEnd, batch_isend_irecv) before and after, but not in one whose
// other messages are as always.  Each later send answers an earlier receive, so it is the last
// receive that waits, long after the mistake.  The hang gets that as its divergence, and that peer
// as its root.
void find_lacking_batches(const Run& run, WaitGraph& graph);

}  // namespace traintrace
