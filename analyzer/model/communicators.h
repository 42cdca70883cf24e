// Communicators as all ranks together recorded them.
#pragma once

#include "analyzer/model/run.h"
#include "analyzer/model/runs/rank_assignment.h"

namespace traintrace {

// Fills run.communicators from run.processes; the other fields are in place.
void merge_communicators(Run& run, const std::vector<RankSeat>& seats);

// The global ranks of all members by their rank in it; empty: the source does not say them.
std::vector<int> declared_members(const CommunicatorText& text);

// "dp (4 ranks)", "dp (ranks 0,2)" where several are dp, "of 8 ranks 0-7" for an unnamed one.
std::string label_of(const Run& run, const Communicator& communicator);
// Where there is room for a name alone: "dp", "communicator of 8 ranks 0-7" for an unnamed one.
std::string short_label_of(const Run& run, const Communicator& communicator);

}  // namespace traintrace
