// How long a wait may last before it is a hang: rank 0 may write a checkpoint or evaluate while the
// others wait for it, and a loader may take its time.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// The longest that members waited for the last of them at that call site before, of what is kept;
// 0: never.
TimeNs longest_wait_before(const Run& run, const Wait& wait);

// Somebody looked at it, and its host went on outside CUDA and NCCL meanwhile: it is slow, not
// stuck.
bool is_seen_to_move(const Run& run, const RankState& state);

// For that rank, alive, in that operation.  --hang-after; or twice what was waited there before;
// or, while it still gives its GPU work or its host is seen to move, for as long as PyTorch lets a
// collective take.
TimeNs patience_with(const Run& run, const RankState& awaited, const Wait& wait);

}  // namespace traintrace
