#include "analyzer/model/progress.h"

#include <algorithm>
#include <iterator>

#include "analyzer/model/peers.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/idle_host.h"

namespace traintrace {
namespace {

bool runs(const OperationText& operation) {
  return (operation.flags & (format::kCaptured | format::kFailed)) == 0;
}

// A thread is between GroupStart and GroupEnd.
bool group_is_open(const ProcessTrace& trace) {
  return std::any_of(trace.threads.begin(), trace.threads.end(), [](const ThreadText& thread) {
    return thread.group_depth > 0 && thread.open[1].enter == 0;
  });
}

// Whether that is news about a stream of the member.
bool was_begun(Run& run, const Member& member, uint64_t sequence) {
  ProcessTrace& trace = run.processes[member.process];
  const OperationText* operation = collective_at(text_of(run, member), sequence);
  if (operation == nullptr || operation->position == 0 || operation->stream == 0 ||
      operation->stream > trace.streams.size()) {
    return false;
  }
  uint64_t& completed = trace.streams[operation->stream - 1].completed;
  const bool news = completed + 1 < operation->position;
  completed = std::max(completed, operation->position - 1);
  return news;
}

// All collectives of a communicator are on one stream there, in the order of their numbers.
void finish_before(Run& run, const Member& member, uint64_t sequence) {
  const ProcessTrace& trace = run.processes[member.process];
  for (OperationText& operation :
       run.processes[member.process].communicators[member.element].recent) {
    if (operation.collective && operation.sequence != 0 && operation.sequence < sequence &&
        certainly_unfinished(gpu_state(trace, operation))) {
      operation.flags |= format::kFinished;
    }
  }
}

// What is finished may have been left out, all that came after messages that are not.
bool knows_last_collective(const Run& run, const Member& member) {
  const std::vector<OperationText>& recent = text_of(run, member).recent;
  return !run.processes[member.process].facts.contains("entries-left-out") || recent.empty() ||
         recent.back().collective;
}

// Finished by the member, a message that its peer must have sent after its own dump was made.
void add_late_senders(const Run& run, const Communicator& communicator, const Member& member,
                      Ranks& ranks) {
  const ProcessTrace& trace = run.processes[member.process];
  for (const OperationText& operation : text_of(run, member).recent) {
    if (operation.collective || !operation.receive || operation.sequence == 0 ||
        member.local_rank < 0 || operation.peer == member.local_rank ||
        !finished(trace, operation)) {
      continue;
    }
    const Member* const peer = member_at(communicator, operation.peer);
    if (peer != nullptr && is_flight_dump(run.processes[peer->process]) &&
        !has_posted(run, *peer, false, member.local_rank, operation.sequence)) {
      insert(ranks, peer->rank);
    }
  }
}

}  // namespace

uint64_t last_finished(const Run& run, const Communicator& communicator) {
  uint64_t last = 0;
  for (const Member& member : communicator.members) {
    const ProcessTrace& trace = run.processes[member.process];
    for (const OperationText& operation : text_of(run, member).recent) {
      if (operation.collective && operation.sequence > last && runs(operation) &&
          (operation.flags & format::kEmpty) == 0 && operation.count != 0 &&
          finished(trace, operation) &&
          direction_of(call_name(trace, operation.call)) == Direction::kAllToAll) {
        last = operation.sequence;
      }
    }
  }
  return last;
}

Ranks that_went_on(const Run& run) {
  Ranks ranks;
  for (const Communicator& communicator : run.communicators) {
    const uint64_t sequence = last_finished(run, communicator);
    for (const Member& member : communicator.members) {
      const ProcessTrace& trace = run.processes[member.process];
      if (is_flight_dump(trace) && knows_last_collective(run, member) &&
          sequence_reached(trace, text_of(run, member)) < sequence) {
        insert(ranks, member.rank);
      }
      add_late_senders(run, communicator, member, ranks);
    }
  }
  return ranks;
}

bool finished(const ProcessTrace& trace, const OperationText& operation) {
  if ((operation.flags & format::kFinished) != 0 || operation.gpu == GpuState::kFinished) {
    return true;
  }
  return operation.stream != 0 && operation.stream <= trace.streams.size() &&
         operation.position != 0 &&
         trace.streams[operation.stream - 1].completed >= operation.position;
}

GpuState gpu_state(const ProcessTrace& trace, const OperationText& operation) {
  constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
  if ((operation.flags & kNot) != 0) {
    return GpuState::kUnknown;
  }
  if (finished(trace, operation)) {
    return GpuState::kFinished;
  }
  if ((operation.flags & format::kLaunched) != 0 && certainly_unfinished(operation.gpu)) {
    return operation.gpu;
  }
  return operation.position == format::kNeverReached ? GpuState::kAborted : GpuState::kUnknown;
}

void infer_progress(Run& run) {
  constexpr int kMostHops = 64;
  for (const Communicator& communicator : run.communicators) {
    const uint64_t sequence = last_finished(run, communicator);
    for (const Member& member : communicator.members) {
      if (is_flight_dump(run.processes[member.process])) {
        finish_before(run, member, sequence);
      }
    }
  }
  bool news = true;
  for (int hop = 0; news && hop < kMostHops; ++hop) {
    news = false;
    for (const Communicator& communicator : run.communicators) {
      const uint64_t sequence = last_finished(run, communicator);
      for (const Member& member : communicator.members) {
        news = (sequence != 0 && was_begun(run, member, sequence)) || news;
      }
    }
  }
}

uint64_t sequence_reached(const ProcessTrace& trace, const CommunicatorText& communicator) {
  uint64_t reached = communicator.collectives;
  if (!group_is_open(trace)) {
    return reached;
  }
  for (auto at = communicator.recent.rbegin(); at != communicator.recent.rend(); ++at) {
    const bool pending = (at->flags & format::kGrouped) != 0 &&
                         (at->flags & (format::kLaunched | format::kFailed)) == 0;
    if (!pending) {
      break;
    }
    if (at->collective && at->sequence != 0) {
      reached = std::min(reached, at->sequence - 1);
    }
  }
  return reached;
}

const OperationText* collective_at(const CommunicatorText& communicator, uint64_t sequence) {
  const std::vector<OperationText>& recent = communicator.recent;
  const auto is_it = [&](const OperationText& operation) {
    return operation.collective && operation.sequence == sequence && runs(operation);
  };
  // Where there are collectives only, their places follow from their numbers.
  if (!recent.empty() && sequence <= recent.back().sequence &&
      recent.back().sequence - sequence < recent.size()) {
    const OperationText& guess =
        *(recent.end() - 1 - static_cast<std::ptrdiff_t>(recent.back().sequence - sequence));
    if (is_it(guess)) {
      return &guess;
    }
  }
  for (auto at = recent.rbegin(); at != recent.rend(); ++at) {
    if (is_it(*at)) {
      return &*at;
    }
    if (at->collective && runs(*at) && at->sequence < sequence && at->sequence != 0) {
      return nullptr;  // they ascend
    }
  }
  return nullptr;
}

Direction direction_of(std::string_view function) {
  if (function == "ncclBroadcast" || function == "ncclBcast" || function == "ncclScatter") {
    return Direction::kFromRoot;
  }
  if (function == "ncclReduce" || function == "ncclGather") {
    return Direction::kToRoot;
  }
  return Direction::kAllToAll;
}

uint64_t bytes_of_type(int data_type) {
  // ncclDataType_t of NCCL 2.28: int8 uint8 int32 uint32 int64 uint64 float16 float32 float64
  // bfloat16 float8e4m3 float8e5m2
  constexpr uint64_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return data_type >= 0 && data_type < static_cast<int>(std::size(kBytes)) ? kBytes[data_type] : 0;
}

}  // namespace traintrace
