// Why those that others wait for do not come, where the records say it: the first that holds, in
// the order in which one defect is named (docs/findings.md).
#pragma once

#include <optional>

#include "analyzer/model/run.h"

namespace traintrace {

enum class Cause : uint8_t {
  kNotSeen,       // the records do not say
  kOutOfMemory,   // an allocation failed, and nothing was launched since
  kImplicitSync,  // inside a call that waits for the device, and so for those that wait
  kStall,         // held up by its own GPU or stream: stalls.h
  kUnlaunched,    // it captured its part into a graph and has not launched it
  kCreation,      // members contradict each other about the communicator: creations.h, splits.h
  kMisuse,        // it used the communicator too early, or behind its end: misuse.h; or from two
                  // threads at a time: launch_races.h
  kAsyncError,    // NCCL reported an error there
  kDestroyed,     // it has destroyed the communicator
  kOpenGroup,     // called inside a group that it has not closed
  kRegistration,  // some are inside the registration of a window, some are not: registrations.h
  kThreads,       // a cycle: threads of one rank issue on different communicators
};

Cause cause_of(const Run& run, const Hang& hang);

// Of a cycle: those that are inside a call that waits for more than it was told of, while others
// are not.
Ranks inside_implicit_sync(const Run& run, const Hang& hang);

// What such a call of a root waits for, among other things: an operation that the root has called,
// and that the others have put after the one in which they wait for the root.
struct HeldOperation {
  size_t communicator = 0;  // in Run::communicators
  const OperationText* own = nullptr;
};
std::optional<HeldOperation> held_by_others(const Run& run, const Hang& hang, Rank root);

// The first allocation that failed for want of memory, after which the process launched nothing and
// got no memory of that size.  Needs the events; null: there is none.
const CallRecord* out_of_memory(const Run& run, Rank rank);

// The newest collective of the communicator that the rank captured, if none was launched since.
const OperationText* unlaunched_capture(const Run& run, const Member& member);

// Operations of several communicators in a cycle came from different threads of that rank.  Needs
// the events.
bool issues_from_threads(const Run& run, const Hang& hang, Rank rank);

}  // namespace traintrace
