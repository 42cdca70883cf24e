// A process of a running job that is looked at again and again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/top/job_view.h"
#include "analyzer/top/live_process.h"
#include "analyzer/top/steps_seen.h"

namespace traintrace {

TimeNs now_ns();  // of the system's clock, as in traces

struct FollowedProcess {
  explicit FollowedProcess(LiveProcess opened) : process(std::move(opened)) {}

  LiveProcess process;
  RankView identity;  // what does not change
  // Places in the job's code by stack; none: the stack has no frame of it.
  std::unordered_map<uint32_t, std::optional<std::string>> places;
  uint64_t events = 0;
  TimeNs moved = 0;  // when it was last seen to do something other than to poll
  std::optional<uint64_t> first_allocated;
  StepsSeen steps;
  // Of this look:
  LiveSample sample;
  const LiveCommunicator* main = nullptr;  // the one whose collectives are compared
  std::vector<LiveOperation> operations;   // of `main`
  LiveOperation newest;                    // of all communicators
  const LiveCommunicator* newest_in = nullptr;

  bool look(TimeNs now);
  RankView view(TimeNs now, TimeNs blocked_after, int world_size);

 private:
  void choose_communicators();
  void note_motion();
  const LiveThread* working_thread() const;
  bool ended_or_silent(TimeNs now, RankView& view) const;
};

}  // namespace traintrace
