// Which threads of a process that holds several ranks work for one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/runs/rank_assignment.h"

namespace traintrace {

// By serial: those that, as far as events are kept, called NCCL for that rank or worked on its
// device, and those of which nothing is known.  Empty: cannot be told, it may be any of them.
std::vector<uint32_t> own_threads(const ProcessTrace& trace, const RankSeat& seat);

}  // namespace traintrace
