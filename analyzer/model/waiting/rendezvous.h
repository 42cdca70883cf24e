// Ranks that wait in a store for each other before any communicator exists: of that nothing is
// recorded, so that only a look from outside (threads_now.h) can tell.
#pragma once

#include <optional>

#include "analyzer/model/run.h"

namespace traintrace {

struct Rendezvous {
  Ranks waiting;      // in the store
  Ranks elsewhere;    // stand outside it, at one place
  Ranks gone;         // have ended, or left no trace
  TimeNs silent = 0;  // none of those that were seen has called anything for that long
};

// Between communicators of NCCL ranks meet on the host, too, as in a barrier of gloo or in the
// store of a new process group.  Empty: somebody waits in NCCL, was not looked at, has ended or
// moves; or nobody waits for others in that way.
std::optional<Rendezvous> stuck_host_group(const Run& run);

// The same where nobody looked, by the recorder's own looks at ranks that made no call
// (sampled_place.h): each was on one line for as long as a hang takes.  Not of ranks that exited.
std::optional<Rendezvous> sampled_host_group(const Run& run);

// "gloo", "the store"
const char* host_group_of(const ThreadNow& thread);

// Empty: there is a communicator, somebody was not looked at, or somebody moves.
std::optional<Rendezvous> stuck_rendezvous(const Run& run);

}  // namespace traintrace
