// Ranks that come late to collectives because their GPU has more to do than those of the others,
// or takes longer for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {

// Of one member, from the second collective on.
struct GpuLateness {
  size_t member = 0;       // in Arrivals::members
  size_t last = 0;         // to how many it came last
  int64_t late_ns = 0;     // by how much these were later than the median start, in all
  size_t times = 0;        // how many its GPU's own work delayed, no less than half as much as the
                           // last one's
  int64_t charged_ns = 0;  // sum over these; no more than more_ns
  int64_t more_ns = 0;     // its work beyond the usual in all; negative: less
  size_t parts = 0;        // in how many parts of the run half of the delay was by it
};

struct GpuLatenesses {
  std::vector<GpuLateness> members;
  size_t known = 0;  // collectives to which it is known who came last
  size_t parts = 0;  // of the run, with such collectives
};

// Of one collective, by member.
struct GpuCharges {
  std::vector<int64_t> more_ns;  // work beyond the usual since the last known one
  // By how much such work, also of before where it was not caught up, made the member later than
  // the median; without what its host is charged with (lateness_at).
  std::vector<int64_t> charged_ns;
};

// By collective; empty for the first, and where it is not known who came late.  Of two members the
// usual is what the other does.  `arrivals` usable, and not by the host's calls alone.
std::vector<GpuCharges> gpu_charges(const Arrivals& arrivals);

// `parts`: of the run, by the number of collectives.  Those of one step are late together, so steps
// are what counts; and a rank that has more to do in one place of the step delays one collective
// there, after which all are level for the rest of it.
GpuLatenesses gpu_lateness(const Arrivals& arrivals, size_t parts = kStretches);

// Whether so many parts are a habit.
bool comes_often(const GpuLatenesses& all, const GpuLateness& late);
// The same, of one of `candidates` ranks, and no chance.
bool is_gpu_habit(const GpuLatenesses& all, const GpuLateness& late, size_t candidates);

// What a member's GPU did differently from the median of the other members, in what all recorded.
struct WorkDifference {
  int64_t more_kernels = 0;  // that others ran less often
  int64_t more_ns = 0;       // in kernels that others ran less or more often
  int64_t longer_ns = 0;     // in those that all ran equally often
  int64_t same_ns = 0;       // what these usually take
  size_t same_kernels = 0;   // how many runs these are
  bool knows_grids = true;   // and whether their grids are the same
  int64_t copies_ns = 0;

  double longer() const {
    return same_ns == 0 ? 0 : static_cast<double>(longer_ns) / static_cast<double>(same_ns);
  }
};
WorkDifference work_difference(const Profile& profile, const Arrivals& arrivals, size_t member);

}  // namespace traintrace
