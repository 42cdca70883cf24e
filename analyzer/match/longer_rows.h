// A rank exchanged one message more than in each step before.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// Two ranks exchange as many messages in a row in each step, first the ones and then the others, as
// stages of a pipeline do with microbatches.  One of them sent one more than ever before and waits
// for the answer to it, while the other did as always, took it for the first of its next step and
// waits for the next one (its host may be further on): the hang gets that as its divergence, and
// the sender as its root.
void find_longer_rows(const Run& run, WaitGraph& graph);

}  // namespace traintrace
