// Ranks that have nothing of NCCL under way, as far as a dump of PyTorch's Flight Recorder tells.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// All that keep the others waiting there are through with all that they issued, and have issued
// nothing for as long as a hang takes: what holds them up is on their host, outside NCCL.
bool is_idle(const Run& run, const Hang& hang);

// As its dump says.
bool has_nothing_in_flight(const Run& run, Rank rank);

// The process was read from such a dump.
bool is_flight_dump(const ProcessTrace& trace);

}  // namespace traintrace
