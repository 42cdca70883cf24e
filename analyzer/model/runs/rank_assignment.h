// Who is which global rank.  From the launcher's variables where they name every process apart;
// else from the largest communicator, as where one process holds several ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analyzer/model/ids.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct RankSeat {
  Rank rank;
  size_t process = 0;  // in `traces`
  int device = -1;     // where the process holds several ranks
  // Its elements in that trace's `communicators`, those that it is a member of.
  std::vector<size_t> communicators;
};

struct RankAssignment {
  std::vector<RankSeat> seats;  // by rank
  int world_size = 0;
};

// One process with several members of one communicator: a thread per device, ncclCommInitAll.
bool holds_several_ranks(const ProcessTrace& trace);

// `traces` are the processes of one run, followers left out.
RankAssignment assign_ranks(std::span<const ProcessTrace> traces);

}  // namespace traintrace
