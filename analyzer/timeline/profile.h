// The timelines of a job's processes over the same window, with what all verdicts about time ask of
// them computed once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/ids.h"
#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/collectives/matched_messages.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/partition.h"
#include "analyzer/timeline/pipeline.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

// What one gap has of a cause, or one copy with nothing else beside it.
struct IdleGap {
  int64_t ns;
  int64_t until_ns;  // when work began again; of a copy: when it was done
};

// Idle time of one cause at one place; or the time of copies.
struct IdleSite {
  IdleCause cause;
  std::string call;     // the loader's, blocking, allocating or launching one
  std::string site;     // "train.py(118): train_step"; empty: not known
  std::string op = {};  // where that is so: the operator around the call, "aten::item"
  int64_t ns = 0;
  std::vector<IdleGap> gaps = {};  // in their order
  // Not idle: what the GPU did with nothing computed or communicated beside it, such as "Memset
  // (Device)".  Then `call` launched it, and `cause` means nothing.
  std::string copy = {};
  // The host was in `site` before the call, and need not have called it from there.
  bool spent_in_site = false;
  std::string kernel = {};  // of launches, where neither `site` nor `op` is known: what they launch

  // The same place, of no time.
  IdleSite without_gaps() const {
    return {cause, call, site, op, 0, {}, copy, spent_in_site, kernel};
  }
};

// A collective with others of which it is known who came last to it, but a group's first.
struct CollectiveWait {
  size_t group;       // in Profile::groups
  size_t collective;  // in Arrivals::list
  int64_t ns;         // until the last rank came; 0: that was this one
  int64_t at_ns;      // when this rank came, by its own clock
};

// One GPU of one process.
struct DeviceProfile {
  Rank rank;
  int device = 0;
  size_t index = 0;        // in Profile::devices
  size_t timeline = 0;     // in Profile::timelines
  TimePartition whole;     // of all its work
  IdleTimes whole_idle{};  // the same
  // What a job does before its loop is paid for once, however long the recording: all figures from
  // here on are of the loop alone, which is the whole where nobody knows when it began.
  TimePartition times;
  IdleTimes idle{};
  std::vector<IdleSite> sites;     // by time, longest first
  std::vector<IdleSite> copies;    // the same; add up to TimePartition::exposed_memory_ns
  std::vector<IdleSite> start_up;  // idle time and copies before the loop, longest first
  // Of exposed communication, what the next computation waited for; none: not known.
  std::optional<int64_t> blocking_communication_ns;
  std::optional<int64_t> pipeline_bubble_ns;  // none: it is no stage of a pipeline
  int64_t blocked_ns = 0;                     // while a thread was in a call that waits for the GPU
  int64_t profiling_ns = 0;                   // while the profiler worked for itself
  int64_t profiling_idle_ns = 0;              // and the GPU had nothing to do
  int64_t median_lead_ns = 0;        // from the end of a launch to the start of what it launched
  size_t steps = 0;                  // 0: not known
  std::vector<int64_t> step_starts;  // of each on this GPU: unmarked_steps, then steps_on_device
  size_t unmarked = 0;               // how many of them are before the first mark
  // The same as `steps`, but of the last that part of which the work was recorded.
  double recorded_steps = 0;
  // Where parts of the window begin: its steps, where several are known, else parts of equal work.
  // What comes in half of them comes again and again.
  std::vector<int64_t> stretches;
  Span window{};                      // of its work
  Span loop{};                        // of that, from loop_start_ns on
  std::vector<CollectiveWait> waits;  // by group and collective
  // By group: how many of its collectives this rank had left behind when the loop began.
  std::vector<size_t> collectives_before_loop;
  bool by_host = false;  // Timeline::by_host: what it lost is a lower bound
  // When the first step began on it; what was before is start-up.  None: not known.
  std::optional<int64_t> loop_start_ns;

  int64_t idle_for(IdleCause cause) const { return idle[static_cast<size_t>(cause)]; }
  // Of what is so long in all steps; `ns` where these are not known.
  int64_t per_step(int64_t ns) const {
    const double of = recorded_steps > 0 ? recorded_steps : static_cast<double>(steps);
    return steps < 2 ? ns : static_cast<int64_t>(static_cast<double>(ns) / of);
  }
  // Of the loop.
  double share(int64_t ns) const { return part_of(ns, times.window_ns); }
  double share_of_whole(int64_t ns) const { return part_of(ns, whole.window_ns); }
  // How long it was before the loop, and what was lost of that.
  int64_t start_up_ns() const { return whole.window_ns - times.window_ns; }
  int64_t start_up_lost_ns() const { return whole.lost_ns() - times.lost_ns(); }

 private:
  static double part_of(int64_t ns, int64_t of_ns) {
    return of_ns == 0 ? 0 : static_cast<double>(ns) / static_cast<double>(of_ns);
  }
};

struct Profile {
  std::vector<Timeline> timelines;                   // by rank
  std::vector<DeviceProfile> devices;                // by rank, device
  std::vector<std::optional<PipelineStage>> stages;  // in the order of the timelines
  int world_size = 0;
  std::vector<Arrivals> groups;  // of ranks that meet in collectives
  std::vector<MatchedMessage> messages;
};

// Which of DeviceProfile::stretches a time is in, in ns of the process; the first also has what was
// before.
size_t part_of_window(const DeviceProfile& device, int64_t time_ns);

// `timelines`: of one run, at most one of a rank.  Those without a rank get the lowest that is
// free, or where they are one of several a number that is none of the job (RankSource::kNobody).
Profile build_profile(std::vector<Timeline> timelines);

}  // namespace traintrace
