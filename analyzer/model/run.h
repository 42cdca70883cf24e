// One run of a job, as all its processes recorded it: plain data, and all that a detector sees.
// judge/judge.h builds it; the order in which traces were given leaves no mark on it.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/model/divergence/divergences.h"
#include "analyzer/model/ids.h"
#include "analyzer/model/lost_time.h"
#include "analyzer/model/process/life.h"
#include "analyzer/model/waiting/waits.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {

struct Numbers;
struct Profile;

// Where the recorder's own looks saw a rank that made no call (sampled_place.h): all on one line.
struct SampledPlace {
  uint32_t stack = 0;  // of the newest look: key in the trace's `stacks`
  TimeNs first = 0, last = 0;
  uint32_t looks = 0;
};

struct RankState {
  Rank rank;
  size_t process = 0;  // in Run::processes
  int device = -1;     // where one process holds several ranks: which one is this; else -1
  Ending ending = Ending::kUnknown;  // as `life` says, and so is the next
  TimeNs last_seen = 0;
  std::vector<uint32_t> threads = {};  // own_threads.h; empty: all of the process
  Life life = {};
  std::optional<SampledPlace> sampled = {};  // since its last call, of ranks that others wait for
};

// A rank's side of a communicator.
struct Member {
  Rank rank;
  int local_rank = -1;  // within the communicator; -1: cannot be told
  size_t process = 0;   // in Run::processes
  size_t element = 0;   // in that trace's `communicators`
};

struct Communicator {
  CommunicatorId id;
  CommunicatorId parent;        // of a split or shrink
  std::string name;             // as given by the job, else what it is: "8 ranks 0-7"
  bool named = false;           // by the job
  int size = -1;                // -1: not known
  TimeNs created = 0;           // when the first member began to create it
  std::vector<Member> members;  // by rank: those that recorded something about it
  Ranks absent;                 // members that recorded nothing about it, as far as they are known
};

// What streams of a process were told to wait for by events (stream_order.h).
struct StreamOrder {
  struct Stream {
    uint64_t handle = 0;
    int device = -1;  // of default streams, else -1

    auto operator<=>(const Stream&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  // All that was put on these streams before these times.
  using Before = std::map<Stream, TimeNs>;
  struct Told {
    TimeNs time = 0;
    Before before;  // and all that was said before that
  };
  std::map<Stream, std::vector<Told>> told;  // by time
  // The event that was recorded on that stream at `before` was still pending at `until`.
  struct Unfinished {
    Stream stream;
    TimeNs before = 0;
    TimeNs until = 0;
  };
  std::vector<Unfinished> unfinished = {};
};

struct OtherRun {
  std::string id;
  int ranks = 0;
  TimeNs start = 0;
  TimeNs end = 0;
  // The launcher started its ranks again, and this is the last time that it did: how the job ended
  // is said by that.  Empty: it did not.
  std::string restarted_as = {};
  std::string verdict = {};  // empty: it was not judged
  size_t errors = 0;         // findings of that severity
};

// Clocks of two hosts that contradict each other by at least `skew`.
struct ClockSkew {
  std::string behind;
  std::string ahead;
  TimeNs skew = 0;
  TimeNs error = 0;  // what the difference is known to within
};

// Of one machine, since it was started (run_clocks.h).
struct RunClock {
  std::string host;
  size_t processes = 0;
  bool comparable = false;  // with the others that are
  bool movable = true;      // all that is read of its processes can be told by another clock
  TimeNs moved = 0;         // what was added to their times
  TimeNs error = 0;         // what they may be wrong by since, against the others
  TimeNs end = 0;           // end_for()
};

struct Run {
  std::string id;
  // By host, pid and start.  As recorded, but for what others know of their streams (progress.h).
  std::vector<ProcessTrace> processes;
  std::vector<RankState> ranks;                 // by rank
  std::vector<std::vector<size_t>> of_process;  // of each process, where its ranks are in `ranks`
  Ranks missing;                                // ranks of the world that left no trace
  int world_size = 0;
  std::vector<std::string> hosts;
  TimeNs start = 0;
  TimeNs end = 0;
  uint64_t records = 0;
  bool live = false;                        // a process of it is running right now
  std::vector<Communicator> communicators;  // by creation, then id
  std::vector<RunClock> clocks;
  std::vector<size_t> clock_of;  // by process: in `clocks`
  std::vector<ClockSkew> skews;
  std::vector<OtherRun> others;           // in the same input, by start
  std::vector<ReadError> unreadable;      // inputs of which nothing could be used
  std::vector<ElsewhereTrace> elsewhere;  // of this run, by rank, host and path
  std::vector<ReadError> not_begun;       // traces of processes that ended while these were set up
  TimeNs hang_after = 0;
  Spans late_hosts;  // late_hosts.h
  std::vector<Divergence> divergences;
  WaitGraph waits;
  std::map<Rank, GivenUp> given_up;             // that ended while they waited
  std::map<size_t, StreamOrder> stream_orders;  // by process; only where waits need them
  std::shared_ptr<const Profile> profile;       // of its GPUs (timeline/); null: none was recorded
  std::shared_ptr<const Numbers> numbers;       // that were recorded (numbers/); null: not read
  std::vector<LostTime> lost_times;             // of GPUs with a timeline; by rank and device
};

// Null if that rank left no trace.
const RankState* state_of(const Run& run, Rank rank);
// Those that the process holds, by rank.
std::vector<const RankState*> states_of(const Run& run, size_t process);
// Once `ranks` is complete: finds them without looking through all.
void index_ranks(Run& run);

inline const ProcessTrace& trace_of(const Run& run, const RankState& state) {
  return run.processes[state.process];
}
inline const CommunicatorText& text_of(const Run& run, const Member& member) {
  return run.processes[member.process].communicators[member.element];
}
const Member* member_of(const Communicator& communicator, Rank rank);
const Member* member_at(const Communicator& communicator, int local_rank);

}  // namespace traintrace
