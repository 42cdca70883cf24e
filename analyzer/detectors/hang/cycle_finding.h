// What findings about ranks that wait for each other have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Without certainty and advice.  Of two orders the one that fewer ranks have is blamed.
Finding cycle_finding(const Run& run, const Hang& cycle, std::string_view code);

// The same with its certainty, as sure as it is that none of them goes on.
Finding ordered_cycle_finding(const Run& run, const Hang& cycle, std::string_view code);

// `ordered`, with what else it may be: a call that one of them left out looks the same, unless all
// that the cycle consists of has been called.
std::string order_advice(const Run& run, const Hang& cycle, const Finding& finding,
                         std::string_view ordered);

// A cycle of receives alone, of which one rank did otherwise than each time before, and nobody
// else of the run: its send is what is missing.
std::optional<Finding> left_out_send(const Run& run, const Hang& cycle, std::string_view code);

// "rank 2 waits in ncclRecv #4 on communicator pp (3 ranks) for rank 1", of those in the cycle.
std::string who_waits_where(const Run& run, const Wait& wait, const Ranks& cycle);

// Of what nothing else explains.
bool is_cycle(const Run& run, const Hang& hang);

}  // namespace traintrace
