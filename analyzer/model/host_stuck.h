// Ranks that are blocked outside CUDA, as somebody saw who looked at their threads.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// All that keep the others waiting there have been looked at (live/), are outside NCCL and CUDA,
// and have called nothing of them for as long as a hang takes.
bool is_stuck_on_host(const Run& run, const Hang& hang);

}  // namespace traintrace
