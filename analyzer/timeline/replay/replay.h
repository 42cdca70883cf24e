// What a job would take without a cause of lost time: its recorded calls and work run once more, in
// their order and with what each had to wait for, and the cause is left out.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/timeline/replay/replay_graph.h"

namespace traintrace {

// What is left out.
struct Removal {
  // Idle time of one cause on one GPU.
  struct Idle {
    size_t device = 0;  // in Profile::devices
    IdleCause cause = IdleCause::kUnattributed;
    std::vector<int64_t> until_ns = {};  // only in gaps that end then (IdleGap); empty: in all
  };
  std::vector<Idle> idle = {};
  // Of these (in Profile::timelines) the host never takes the time that it takes in what is left
  // out of `idle`, the loader or launching, also where its GPU is not idle for it: what takes
  // longer than any of that is something else.
  std::vector<size_t> slow_hosts = {};
  // These (in Profile::timelines) have loaded the code of all kernels before.
  std::vector<size_t> loaded_hosts = {};
  // On these GPUs (in Profile::devices) communication takes no time, but for waiting until all
  // ranks of a collective, or the other side of a message, have come.  Messages that are not
  // matched, and collectives of groups that are not known, take none.
  std::vector<size_t> communication = {};
  // Of one process, the same of these pieces of communication alone.
  struct Pieces {
    size_t timeline = 0;            // in Profile::timelines
    std::vector<size_t> work = {};  // in Timeline::work, in order
  };
  std::vector<Pieces> pieces = {};
  // On one GPU, copies and sets take no time.
  struct Copies {
    size_t device = 0;                 // in Profile::devices
    std::vector<int64_t> end_ns = {};  // only those that end then; empty: all
    bool unblocks = false;             // and calls that launched them do not wait for them
  };
  std::vector<Copies> copies = {};
  // On these GPUs (in Profile::devices) the legacy default stream orders nothing.
  std::vector<size_t> legacy = {};
  // Of these (in Profile::timelines) neither host nor GPU does anything beyond the usual between
  // collectives (excess_of).
  std::vector<size_t> late_ranks = {};
  // On this GPU (in Profile::devices), computing that began in one part (part_of_window) takes only
  // this share of the time.
  struct Faster {
    size_t device = 0;
    size_t part = 0;
    double share = 1;
  };
  std::vector<Faster> faster = {};
};

// Of one of Profile::devices, in ns.
struct ReplayedTime {
  int64_t window_ns = 0;  // from the start of its first work to the end of its last
  int64_t loop_ns = 0;    // what DeviceProfile::loop takes then
};

// For each of Profile::devices.
//
// A call that launches takes place when its process gets there; a call that blocks returns when
// what it waited for is done.  Work begins when its launch and what it waited for on the GPU allow
// it; a collective ends when its last rank has come and its data have been transferred, a message
// when its other side has.  All else keeps its length, also a wait for something that was not
// recorded, and queues have room where they had in the recording: what is gained by leaving
// something out is an upper bound.  With nothing left out this is what was recorded, as far as the
// clocks of host and GPU agree.
std::vector<ReplayedTime> replayed_times(const ReplayGraph& graph, const Profile& profile,
                                         const Removal& removal);

}  // namespace traintrace
