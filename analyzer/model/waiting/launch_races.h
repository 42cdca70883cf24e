// Calls that NCCL refused while another thread was launching on the same device.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

struct LaunchRace {
  Rank rank;
  size_t process = 0;                   // in Run::processes
  size_t element = 0;                   // the communicator, in that trace's `communicators`
  const CallRecord* refused = nullptr;  // in that trace's `events`
  const CallRecord* other = nullptr;
};

// The first of each rank, by rank.  Needs the events.
std::vector<LaunchRace> launch_races(const Run& run);

// Its roots do not come because of one.
bool is_launch_race(const Run& run, const Hang& hang);

}  // namespace traintrace
