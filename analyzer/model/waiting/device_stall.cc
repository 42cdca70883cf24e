#include "analyzer/model/waiting/device_stall.h"

#include <algorithm>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/run.h"

namespace traintrace {
namespace {

bool is_through(const Run& run, const Member& member, uint64_t sequence) {
  const CommunicatorText& text = text_of(run, member);
  const OperationText* operation = collective_at(text, sequence);
  return sequence <= text.finished ||
         (operation != nullptr && finished(run.processes[member.process], *operation));
}

Ranks peers_through(const Run& run, const Communicator& communicator, Rank rank,
                    uint64_t sequence) {
  Ranks peers;
  for (const Member& member : communicator.members) {
    if (member.rank != rank && is_through(run, member, sequence)) {
      peers.push_back(member.rank);
    }
  }
  return peers;
}

}  // namespace

std::optional<DeviceStall> device_stall(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  if (state == nullptr || !is_flight_dump(trace_of(run, *state))) {
    return std::nullopt;
  }
  std::optional<DeviceStall> oldest;
  uint64_t pending = 0;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Communicator& communicator = run.communicators[i];
    const Member* const member = member_of(communicator, rank);
    if (member == nullptr) {
      continue;
    }
    const ProcessTrace& trace = run.processes[member->process];
    for (const OperationText& operation : text_of(run, *member).recent) {
      if (!certainly_unfinished(gpu_state(trace, operation))) {
        continue;
      }
      ++pending;
      const std::string function = call_name(trace, operation.call);
      if (!operation.collective || operation.sequence == 0 ||
          direction_of(function) != Direction::kAllToAll ||
          (oldest && oldest->details.enter <= operation.enter)) {
        continue;
      }
      Ranks peers = peers_through(run, communicator, rank, operation.sequence);
      if (!peers.empty()) {
        oldest = {i, operation.sequence, function, operation, std::move(peers), 0};
      }
    }
  }
  if (oldest) {
    oldest->pending = pending;
  }
  return oldest;
}

}  // namespace traintrace
