// Where the steps of a training loop begin, without anybody's annotation: the kernels of the
// busiest stream repeat (docs/findings.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

struct StepPeriod {
  size_t work = 0;      // pieces in one step, on the busiest stream
  int64_t step_ns = 0;  // median from a piece of work to the same one of the next step
  double repeats = 0;   // how often the period fits into the window
  int32_t device = 0;
  std::vector<int64_t> starts;  // of the first piece of work of each whole step; ns
};

// The smallest period of at least 20 pieces of work after which 99 % are the same again, with at
// least two whole repeats; or after which 90 % are, but for what comes between steps now and then:
// a checkpoint, logging, an evaluation.  That is copies and kernels that steps have as well:
// others, as an optimizer's, make these parts of a step.  One of less work than that only where
// something else tells steps.  None: nothing repeats so, as in a trace with samples left out.
std::optional<StepPeriod> find_step_period(const Timeline& timeline);

// Where each step of the timeline begins, by its annotations, else by the period; empty: not known.
std::vector<int64_t> step_starts_of(const Timeline& timeline);
// Where each of them begins on one GPU.  The host runs ahead of it: what it launched within a step
// is that step's, whenever it ran.  A gap between two steps is cut where the host began the next
// one; of steps that overlap the next begins with its first work on the stream that
// computes for longest: what other streams do ahead of it counts in the step in which it ran.
// Without launches, and where the timeline is by the host's calls alone: as step_starts_of(). Never
// before the first work of that GPU.  Without unmarked_steps(), and without those at the end that
// begin after its last work: what ran in them was not recorded.
std::vector<int64_t> steps_on_device(const Timeline& timeline, int32_t device);
// How many steps of the GPU the recording has of the first `steps` marked ones: that in which it
// ends counts as the part of its launches of kernels that have work.
double recorded_steps(const Timeline& timeline, size_t steps);
// How many marked steps steps_on_device() leaves out because the recording of the GPU ends before
// what they launched; of several GPUs, that of the longest one.
size_t steps_left_out(const Timeline& timeline);
// A host that runs ahead launched before the recording what GPUs still run for some of its steps:
// these have no marks, but the work of the busiest stream repeats from them to the marked ones,
// which begin at `marked` on that GPU.  Where each of the former begins; empty: there are none, or
// what is before the marks is other work.
std::vector<int64_t> unmarked_steps(const Timeline& timeline, int32_t device,
                                    const std::vector<int64_t>& marked);
// Of the one that begins at `step_starts[index]`, as the job counts, else from 0.
int64_t step_number(const Timeline& timeline, size_t index);
// How many step_starts_of() gives.
size_t count_steps(const Timeline& timeline);

}  // namespace traintrace
