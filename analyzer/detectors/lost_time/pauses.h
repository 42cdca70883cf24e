// What a GPU lost once, or now and then: no habit of the job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {

// All that was lost so in one step; where steps are not known, within one of the parts with as many
// pieces of work each.
struct Pause {
  int64_t stretch = 0;  // stretch_of; -1: start-up
  int64_t ns = 0;
  std::vector<IdleSite> sites;  // idle time and copies, most first
  size_t gaps() const;
  // Whether nearly all of it is one gap.
  int64_t longest_ns() const;  // of its gaps
  bool is_one() const;
};

struct Pauses {
  // Each of 1 % of the window at least, or one of those that return; longest first.
  std::vector<Pause> list;
  // The line whose pauses come again after as much work each time, not in steps in a row, and cost
  // most, with one gap for each step that has one.  Together they are 1 % of the window at least,
  // however short each is of a long recording; where they come at no even distances, there are many
  // all over it.  None: no line's do.
  std::optional<IdleSite> returning;
  bool returns_evenly = false;
};
Pauses pauses_of(const DeviceProfile& device);

// What was lost before the loop, where that is worth a line; none: hardly anything, or nobody knows
// when the loop began.
std::optional<Pause> start_up_of(const DeviceProfile& device);

// While pauses that return lasted: a checkpoint or an evaluation.  Empty: there are none, or steps
// are not known.
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
// By device, those of 1 % of the window at least, and shorter ones for pauses that are shorter,
// too; `pauses`: by device.
std::vector<std::vector<WaitOnce>> waits_once(const Profile& profile,
                                              const std::vector<Pauses>& pauses);

}  // namespace traintrace
