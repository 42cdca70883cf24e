// Who waited for whom in a profile, as replay.h runs it once more.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/spans.h"

namespace traintrace::replay {

inline constexpr size_t kNone = std::numeric_limits<size_t>::max();

// Places in a list of all.
struct Part {
  size_t begin = 0, end = 0;
};

// A call that launches work or blocks.  Times in ns of the process, as recorded.
struct Call {
  int64_t begin_ns, end_ns;
  uint32_t thread;
  bool blocks;
  Part awaited = {};  // in Process::works_awaited
};

struct Work {
  int64_t start_ns, end_ns;
  size_t device = kNone;   // in Profile::devices
  size_t launch = kNone;   // in Process::calls
  int64_t latency_ns = 0;  // from when the launch began, at least
  int64_t gap_ns = 0;      // from the end of what it waited for on the GPU, at least
  Part before = {};        // that, in Process::works_before
  size_t meeting = kNone;  // in ReplayGraph::meetings
  size_t member = 0;       // of that
  WorkKind kind = WorkKind::kCompute;
};

// Why a GPU was idle, in a part of a gap.
struct Charge {
  size_t device;  // in Profile::devices
  IdleCause cause;
  int64_t ns;
  Span gap;     // the whole of it
  size_t next;  // the work that ends it
};

enum class PointKind : uint8_t { kWorkEnd, kCallEnd, kCallBegin, kWorkStart, kEmptyEnd };

struct Point {
  int64_t time_ns;  // of the process
  uint32_t index;   // of the call or work
  PointKind kind;   // the order of what happened at one time
};

struct Process {
  std::vector<Call> calls;            // by begin
  std::vector<Work> works;            // as in the timeline
  std::vector<size_t> works_awaited;  // by calls
  std::vector<size_t> works_before;   // by works
  // By thread: calls that block, by end; and while it was in the loader, in the allocator, waited
  // for other ranks.
  std::vector<std::vector<size_t>> blocking;
  std::vector<std::array<Spans, 3>> busy;
  std::vector<Charge> charges;
  // In ns, of communication that may wait for other ranks, but as long as was recorded: messages,
  // and collectives of groups that are not known.
  int64_t unmet_ns = 0;
  std::vector<Point> points;  // in the order in which they happened
};

// A collective on all its ranks.
struct Meeting {
  std::vector<int64_t> start_ns;  // by member, on one clock, which other meetings need not have
  int64_t last_start_ns = 0;
};

}  // namespace traintrace::replay

namespace traintrace {

struct ReplayGraph {
  std::vector<replay::Process> processes;  // as Profile::timelines
  std::vector<replay::Meeting> meetings;
};

// Whether what delays one rank delays others in a replay as it did in the job: where much of what
// ranks wait in is unmet, it does not.
bool knows_who_waits(const ReplayGraph& graph, const Profile& profile);

// `profile` not by the host's calls alone.
ReplayGraph replay_graph(const Profile& profile);

}  // namespace traintrace
