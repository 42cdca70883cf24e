// Ranks whose GPU comes late to collectives for what it has to do itself, and why.
#pragma once

#include <string>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/timeline/collectives/gpu_lateness.h"

namespace traintrace {

struct GpuStraggler {
  GpuLateness lateness;
  size_t collectives = 0;  // to which it is known who came last
  WorkDifference difference;
};

// Of one group; of two members only where kernels of the same name and grid take longer, or where
// all other ranks compute as long as the other one: that one has more to do may be the other's
// having less.
std::vector<GpuStraggler> gpu_stragglers(const Profile& profile, const Arrivals& arrivals);

// "it has more work: 80 kernels more than usual take 40.0 ms", as evidence.
std::string work_text(const WorkDifference& difference);
// "its GPU has more work than the others'", for a title.
std::string cause_text(const WorkDifference& difference);
// Whether it is the same work that takes longer, and not more of it.
bool is_slower_at_same_work(const WorkDifference& difference);

// Which ranks came last, how often and by how much, as evidence.
void add_last_arrivals(const Profile& profile, Finding& finding);

}  // namespace traintrace
