#include "analyzer/model/waiting/launch_races.h"

#include <algorithm>
#include <optional>

#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

constexpr int kNcclInvalidUsage = 5;  // ncclInvalidUsage

bool launches(const ProcessTrace& trace, const CallRecord& event) {
  const CallSchema* schema = schema_of(trace, event.call);
  return schema != nullptr && schema->library == "nccl" && !event.enter_lost &&
         (schema->kind == "collective" || schema->kind == "send-recv" ||
          schema->kind == "group-end");
}

// Nothing else is known to be wrong with it: NCCL refuses much for that reason.
bool is_usable(const ProcessTrace& trace, uint64_t number, TimeNs time) {
  if (number == 0 || number > trace.communicators.size()) {
    return false;
  }
  const CommunicatorText& text = trace.communicators[number - 1];
  constexpr uint32_t kNot = format::kNonBlocking | format::kInitFailed | format::kAfterEnd;
  return (text.flags & kNot) == 0 && (text.ended == 0 || text.ended > time);
}

// What the refused call was about; 0: it is not known, or more was wrong than the launch.
uint64_t launched_on(const ProcessTrace& trace, const CallRecord& refused) {
  if (schema_of(trace, refused.call)->kind != "group-end") {
    return communicator_of(trace, refused);
  }
  uint64_t found = 0;
  const auto end = static_cast<size_t>(&refused - trace.events.data());
  for (size_t i = end; i-- > 0;) {
    const CallRecord& event = trace.events[i];
    const CallSchema* schema = schema_of(trace, event.call);
    if (event.thread != refused.thread || schema == nullptr) {
      continue;
    }
    if (schema->kind == "group-start") {
      return found;
    }
    if (launches(trace, event)) {
      if (!event.returned || event.result != 0) {
        return 0;
      }
      found = communicator_of(trace, event);
    }
  }
  return 0;
}

// Of another thread, inside at the same time.
const CallRecord* beside(const ProcessTrace& trace, const CallRecord& refused) {
  for (const CallRecord& other : trace.events) {
    if (other.enter >= refused.leave) {
      break;  // they are in order
    }
    if (other.thread != refused.thread && other.device == refused.device &&
        (!other.returned || other.leave > refused.enter) && !other.leave_lost &&
        launches(trace, other)) {
      return &other;
    }
  }
  return nullptr;
}

std::optional<LaunchRace> race_of(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  for (const CallRecord& event : trace.events) {
    if (!event.returned || event.result != kNcclInvalidUsage || !launches(trace, event) ||
        event.device == format::kNoDevice || (state.device >= 0 && event.device != state.device)) {
      continue;
    }
    const uint64_t number = launched_on(trace, event);
    const CallRecord* other =
        is_usable(trace, number, event.enter) ? beside(trace, event) : nullptr;
    if (other != nullptr) {
      return LaunchRace{state.rank, state.process, number - 1, &event, other};
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<LaunchRace> launch_races(const Run& run) {
  std::vector<LaunchRace> found;
  for (const RankState& state : run.ranks) {
    if (const auto race = race_of(run, state)) {
      found.push_back(*race);
    }
  }
  return found;
}

bool is_launch_race(const Run& run, const Hang& hang) {
  return hang.fate != Fate::kCycle && !hang.roots.empty() && hang.divergences.empty() &&
         std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
           const RankState* state = state_of(run, rank);
           return state != nullptr && race_of(run, *state);
         });
}

}  // namespace traintrace
