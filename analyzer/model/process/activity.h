// What a process was doing when it was last heard of.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analyzer/model/run.h"

namespace traintrace {

struct Activity {
  std::string call;      // ncclAllReduce; empty: none was recorded
  std::string kind;      // kinds.def
  uint32_t stack = 0;    // in the trace's `stacks`
  uint32_t thread = 0;   // ThreadText::serial
  TimeNs time = 0;       // when it was entered, or last polled
  bool open = false;     // it has not returned
  uint64_t queries = 0;  // how often it was polled since it was recorded
};

// Of the thread that runs the user's code: among those with Python frames of the user the one heard
// of last, else of all.  In a process with several ranks, by its last call on that rank's device.
std::optional<Activity> activity_of(const Run& run, const RankState& state);

// It may work for that rank: of a process that holds several, not all do.
bool works_for(const RankState& state, const ThreadText& thread);

// Since when a thread that may work for the rank has been inside a call that waits for others; 0:
// none is.
TimeNs blocked_in_nccl(const Run& run, const RankState& state);
TimeNs blocked_in_cuda(const Run& run, const RankState& state);

// It had been in such a call, or had asked an event again and again, for as long as a hang takes
// when it ended: its end is a consequence.
bool was_stuck_at_end(const Run& run, const RankState& state);

// The thread that runs the user's code for that rank.  Null: nobody looked.
const ThreadNow* working_thread(const Run& run, const RankState& state);

// The same, if an observer saw it outside NCCL and CUDA: that is newer than the last call, and says
// more.  Null: nobody looked, or it is in a call of theirs.
const ThreadNow* seen_outside(const Run& run, const RankState& state);

const CallSchema* schema_of(const ProcessTrace& trace, uint32_t call);
std::string call_name(const ProcessTrace& trace, uint32_t call);

// From 1, as the recorder numbers them; 0: the call names none.
uint64_t communicator_of(const ProcessTrace& trace, const CallRecord& event);

// What the call was given or gave back by that name; none: it has no such field.
std::optional<uint64_t> value_of(const ProcessTrace& trace, const CallRecord& event,
                                 std::string_view field);

}  // namespace traintrace
