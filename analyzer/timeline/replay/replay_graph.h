// Who waited for whom in a profile, as replay.h runs it once more.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/spans.h"

namespace traintrace::replay {

inline constexpr size_t kNone = std::numeric_limits<size_t>::max();

// What ends and begins at one moment may overlap by so much: steps of GPUs' clocks, and rounding.
inline constexpr int64_t kClockStepNs = 1'000;
// And by how much what took `ns` may be wrong where one clock runs faster than another.
inline int64_t clock_error_ns(int64_t ns) {
  return kClockStepNs + ns / 1'000'000 * kMostDriftPpb / 1'000;
}

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
  Part meetings = {};      // that it is in, in Process::attendances
  WorkKind kind = WorkKind::kCompute;
};

// Why a GPU was idle, in a part of a gap.
struct Charge {
  size_t device;  // in Profile::devices
  IdleCause cause;
  int64_t ns;
  Span gap;     // the whole of it
  size_t next;  // the work that ends it
  Span call;    // the one that is the reason; empty where none is
};

// What ranks do together, as one of them takes part in it.
struct Attendance {
  uint32_t meeting;  // in ReplayGraph::meetings
  uint32_t member;   // of that
  bool waits;        // until all have come; else it only makes the others wait
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
  std::vector<size_t>
      before_by_legacy;                 // places in it, in order: only by the legacy default stream
  std::vector<Attendance> attendances;  // by works
  // By thread: calls that block, by end; and while it was in the loader, in the allocator, waited
  // for other ranks.
  std::vector<std::vector<size_t>> blocking;
  std::vector<std::array<Spans, 3>> busy;
  std::vector<Charge> charges;
  // In ns, of communication that may wait for other ranks, but as long as was recorded: messages
  // that are not matched, and collectives of groups that are not known.
  int64_t unmet_ns = 0;
  std::vector<Point> points;  // in the order in which they happened
};

// A collective on all its ranks, or messages between two kernels.
struct Meeting {
  std::vector<int64_t> start_ns;  // by member, on one clock, which other meetings need not have
  int64_t last_start_ns = 0;
  int64_t transfer_ns = 0;  // from then to the first end of those that wait
};

}  // namespace traintrace::replay

namespace traintrace {

struct ReplayGraph {
  std::vector<replay::Process> processes;  // as Profile::timelines
  std::vector<replay::Meeting> meetings;
};

// `profile` not by the host's calls alone.
ReplayGraph replay_graph(const Profile& profile);

}  // namespace traintrace
