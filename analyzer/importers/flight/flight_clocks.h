// The clocks of the hosts that wrote dumps of Flight Recorder.  Each dump is by one clock, and does
// not say by which; when collectives ended tells how far they are ahead of each other
// (model/runs/clock_offsets.h).
#pragma once

#include <vector>

#include "analyzer/importers/flight/flight_jobs.h"

namespace traintrace {

// Of one job.  A dump of which the ends of collectives prove that its clock is not that of the
// others is moved to theirs: by its facts "clock-moved", in ns, to within "clock-error".
void align_flight_clocks(const std::vector<FlightFile*>& files);

// Of two parts that were not there at the same time, by what their clocks show: whether they are of
// one job whose hosts' clocks differ.  Then what they have in common ended at one distance each
// time, and neither has finished what the other did not issue.
bool are_flight_clocks_apart(const std::vector<FlightFile*>& a, const std::vector<FlightFile*>& b);

}  // namespace traintrace
