// What a GPU lost once, or now and then: no habit of the job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {

// All that was lost so in one step, or before the first; where steps are not known, within one of
// the parts with as many pieces of work each.
struct Pause {
  int64_t stretch = 0;  // stretch_of
  int64_t ns = 0;
  std::vector<IdleSite> sites;  // idle time and copies, most first
  size_t gaps() const;
  // Whether nearly all of it is one gap.
  bool is_one() const;
};

// Each of 1 % of the window at least, longest first.
std::vector<Pause> pauses_of(const DeviceProfile& device);

// The line whose pauses come again after as much work each time, and cost most.  None: no line's
// do.
std::optional<IdleSite> returning_of(const DeviceProfile& device, const std::vector<Pause>& pauses);
// While these lasted, if the steps before and after such a pause have none: a checkpoint or an
// evaluation.  Empty: they are in bursts, or there are none.
Spans spans_of_returning(const DeviceProfile& device);

// Waits in collectives that are no habit either: some rank came late once.
struct WaitOnce {
  CollectiveWait wait;
  // The GPU whose rank came last, and whether that had a pause meanwhile, or waited so itself for
  // one that had.
  size_t last = 0;
  bool for_a_pause = false;
  // There are as many as of what comes again: told only where it was for a pause that does so too.
  bool again = false;
};
// By device, those of 1 % of the window at least; `pauses`: by device, those worth a finding.
std::vector<std::vector<WaitOnce>> waits_once(const Profile& profile,
                                              const std::vector<std::vector<Pause>>& pauses);

}  // namespace traintrace
