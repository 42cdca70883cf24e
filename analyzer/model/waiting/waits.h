// Who waits in which operation of which communicator for whom.
//
// NCCL has no wildcards: a collective needs all members of its communicator, a receive needs that
// peer.  So a rank that waits for several waits for all of them (the AND model), and a rank that is
// waited for and waits for nobody is where the trouble starts.  What is known of the GPU's progress
// only takes waiting away: an operation not known to be finished counts as waited in, but nobody is
// waited for unless they are missing from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/divergence/divergences.h"
#include "analyzer/model/ids.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct Run;
struct Member;

enum class WaitKind : uint8_t { kInit, kCollective, kReceive, kSend };

struct Waiter {
  Rank rank;
  size_t process = 0;       // in Run::processes
  TimeNs since = 0;         // it entered the operation
  TimeNs until = 0;         // and was still in it then: its last sign of life, or when it gave up
  uint32_t stack = 0;       // call site, in its trace's `stacks`
  bool blocked = false;     // its host is inside a call that waits, so that it waits for certain
  bool unfinished = false;  // the GPU said so, which comes to the same
};

struct Awaited {
  Rank rank;
  bool entered = false;   // it is in the operation too, but dead or held up
  TimeNs moved = 0;       // its last operation on this communicator
  bool held_up = false;   // its part lies on a stream behind one that cannot finish
  bool by_order = false;  // so it seems: it was called behind one, and nothing is known of streams
  bool stopped = false;   // held up by a function of its own, or by what is no operation of NCCL
};

struct Wait {
  WaitKind kind = WaitKind::kCollective;
  size_t communicator = 0;       // in Run::communicators
  uint64_t sequence = 0;         // 0: creating the communicator
  std::string operation;         // ncclAllReduce
  OperationText details;         // as one of the waiters entered it; `enter` 0: not known
  std::vector<Waiter> waiters;   // by rank
  std::vector<Awaited> awaited;  // by rank
  // Who is a member was not recorded: they are the only ranks that wait in nothing.
  bool inferred = false;
};

enum class Fate : uint8_t {
  kAlive,
  kExited,         // by itself: exit record
  kPerhapsExited,  // so too, with a failure, but the others ended at about the same time
  kDied,           // ended without a word, before those that wait
  kPerhapsDied,    // so too, but they ended at about the same time
  kSilent,         // heard no more while they were, and nothing says that it ended
  kDumpedEarly,    // wrote its dump long before the others, as a process does that ends
  kStalled,        // is there, but its GPU does not do what those of its peers did
  kUntraced,       // left no trace
  kCycle,          // they wait for each other
};

constexpr bool may_have_died(Fate fate) {
  return fate == Fate::kDied || fate == Fate::kPerhapsDied || fate == Fate::kSilent;
}

// How a rank waited that then ended by itself (judge/given_up.h).
struct GivenUp {
  Wait wait;  // as it stood at the end: Run::waits leaves out those that ended in it
  TimeNs waited = 0;
  Ranks missing;  // were there, and had not entered it
};

// Ranks that others wait for and that wait for nobody: where a hang starts.
struct Hang {
  size_t wait = 0;  // in WaitGraph::waits, where the waiting began
  Fate fate = Fate::kAlive;
  Ranks roots;
  Ranks culprits;  // of a cycle: who alone would free all of it; empty: nobody
  Ranks twins;     // run the same program as the root, or the culprit, which parted from them
  bool by_habit = false;  // its own calls before that tell, not that the twins are more
  Ranks victims;          // all that wait for them, directly or not
  TimeNs waited = 0;      // the longest that one of the direct waiters has been in it
  TimeNs witnessed = 0;   // how much of that the roots were seen alive and not coming
  bool entered = false;   // the roots have entered all operations that they are waited for in
  bool alone = false;     // nothing else is known that keeps anybody waiting
  // The roots have not issued a message, or those that wait for it did so by mistake.
  bool by_one_of_two = false;
  bool blocked = false;  // a root is itself held up, in a way that nothing here explains
  bool assumed = false;  // nothing says for how long they wait: a running job may look the same
  // In Run::divergences: what the roots did otherwise than the others, and so why they hang.
  std::vector<size_t> divergences;
};

struct StalledRank {
  Rank rank;
  size_t process = 0;
  OperationText operation;
  GpuState gpu = GpuState::kUnknown;
  TimeNs stuck =
      0;  // how long its host, or what its GPU said, shows that it waits; 0: nothing does
  bool aborted = false;  // it gave the communicator up
};

enum class StallKind : uint8_t {
  kBehind,     // others have finished it
  kBlocked,    // it has not begun on some ranks: their streams are held up before it
  kNoRoom,     // its kernel does not run on some ranks, where that of another communicator does
  kTransport,  // all have begun it, or nothing says otherwise
};

struct Stall {
  StallKind kind = StallKind::kTransport;
  size_t communicator = 0;
  uint64_t sequence = 0;
  std::string function;
  std::vector<StalledRank> ranks;  // that have not finished it, by rank
  Ranks finished;
  Ranks suspects;      // kBehind, kBlocked: whose GPU or stream does not move
  bool known = false;  // what the GPUs or the streams said supports it
  TimeNs since = 0;    // all had entered it
  TimeNs waited = 0;
};

// With those that wait for its ranks.
struct FrontierStall {
  Stall stall;
  Ranks victims;
};

struct WaitGraph {
  std::vector<Wait> waits;  // by communicator, kind, sequence
  std::vector<Hang> hangs;  // by wait, fate
  // From frontiers alone (judge/frontier/frontier.h): then `stalls` are all that there are.
  bool by_frontier = false;
  // Calls at frontiers that differ and of which Run::divergences has nothing: they follow there.
  std::vector<Divergence> divergences = {};
  std::vector<FrontierStall> stalls = {};
  bool undated = false;  // ranks wait, and nothing says for how long
  // Of dumps that were written before any time limit of theirs had passed: whether these waits end
  // is not known, and no hang is made of them.
  std::vector<Wait> within_limits = {};
  bool departed = false;  // `divergences` are the reason for everything: no other ones count
};

// A rank that entered an operation of that communicator at `since`, from that call site.
Waiter waiter_of(const Run& run, const Member& member, TimeNs since, uint32_t stack);
// One that has entered collective `sequence` of it.
Waiter waiter_in(const Run& run, const Member& member, uint64_t sequence);
// Has it a part in collective `sequence` that is not known to be over?
bool is_in(const Run& run, const Member& member, uint64_t sequence);
// It has finalized or destroyed the communicator.
bool has_left(const Run& run, const Member& member);

}  // namespace traintrace
