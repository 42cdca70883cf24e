// Where in the job's code work was launched from.
#pragma once

#include <string>
#include <vector>

#include "analyzer/detectors/lost_time/latency_finding.h"

namespace traintrace {

// What these pieces of work of a timeline took, by the line that launched them, else by the
// operator; most time first.  Work of which neither is known is left out.
std::vector<IdleSite> launch_places(const Timeline& timeline, const std::vector<size_t>& works);

// The first as `where`, and a line of evidence for some: "rank 0: 12.3 ms in 960 calls of
// ncclAllReduce, called by train.py:118 in reduce".
void add_launch_places(const DeviceProfile& device, const std::vector<IdleSite>& places,
                       Finding& finding);

}  // namespace traintrace
