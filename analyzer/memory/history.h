// What the event records of a process say about its memory.
#pragma once

#include <map>

#include "analyzer/memory/blocks.h"

namespace traintrace {

// Steps of the job: work for the GPU that repeats.  A process of several ranks steps by its
// collectives, any other by its launches.
struct Steps {
  std::vector<TimeNs> starts;  // of those that are recorded, one after the other; or empty
  TimeNs work_end = 0;         // when something was last given to the GPU

  uint64_t count() const { return starts.empty() ? 0 : starts.size() - 1; }
  TimeNs first() const { return starts.empty() ? 0 : starts.front(); }
  TimeNs last() const { return starts.empty() ? 0 : starts.back(); }
  // How many began until then.  Those before the records count as negative, as long as the others.
  int64_t number_at(TimeNs time) const;
};

struct BadFree {
  uint32_t call = 0;
  uint32_t stack = 0;
  uint64_t address = 0;
  TimeNs time = 0;
  int device = -1;
  bool before = false;  // the same address had been freed, and was not handed out since
  TimeNs first_time = 0;
  uint32_t first_stack = 0;
};

// Objects of one stack that are not memory: events, graphs, pools.
struct HandleGroup {
  uint32_t stack = 0;
  uint32_t call = 0;           // that created them
  std::vector<TimeNs> births;  // of those that no step destroyed, by time
  uint64_t destroyed = 0;      // of the same stack
};

struct SiteHistory {
  uint64_t allocated = 0;
  uint64_t freed = 0;
  std::vector<TimeNs> freed_behind;  // births of what the last step left and was freed then
};

struct MemoryHistory {
  bool whole = false;  // no record is missing
  Steps steps;
  std::map<uint32_t, SiteHistory> sites;  // by stack of the allocation
  // The job's own code freed, behind all its work, what it had before it.
  bool cleans_up = false;
  std::vector<BadFree> bad_frees;
  std::vector<HandleGroup> handles;  // by number of those that are left

  // Steps::number_at, but for what came before the first step, however long it took: where no
  // record is missing there were none.
  int64_t step_at(TimeNs time) const {
    return whole && time < steps.first() ? 0 : steps.number_at(time);
  }
};

// No record of it is missing.
bool all_is_recorded(const ProcessTrace& trace);
// No record is missing but of what other threads called while the tracer started.
bool all_since_armed(const ProcessTrace& trace);

// The number of the first step that the job can have taken (Steps::number_at): no earlier than the
// process began, and no more steps than the records that are missing were of.
int64_t first_step(const ProcessTrace& trace, const MemoryHistory& history);

MemoryHistory history_of(const ProcessTrace& trace);

Steps steps_of(const ProcessTrace& trace);
// Work of another kind, and more of it, came later: what was repeated was no step, as where a few
// steps warm up what is then captured into a graph, or a model is adapted before it serves.
bool is_preparation(const ProcessTrace& trace, const Steps& steps);
std::vector<HandleGroup> handles_of(const ProcessTrace& trace, TimeNs work_end);

}  // namespace traintrace
