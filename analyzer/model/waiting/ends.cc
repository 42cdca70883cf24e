#include "analyzer/model/waiting/ends.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

bool is_end(std::string_view call) {
  return call == "ncclCommFinalize" || call == "ncclCommDestroy";
}

// What a thread is inside of, by its newest event; of the others' threads nothing is known.
const CallRecord* open_end(const ProcessTrace& trace, const Member& member) {
  for (const ThreadText& thread : trace.threads) {
    const ThreadText::Open& open = thread.open[1];
    if (open.enter == 0 || !is_end(call_name(trace, open.call))) {
      continue;
    }
    const auto event =
        std::find_if(trace.events.rbegin(), trace.events.rend(), [&](const CallRecord& other) {
          return other.thread == thread.serial && other.call == open.call && !other.returned &&
                 !other.leave_lost && !other.enter_lost;
        });
    if (event != trace.events.rend() && communicator_of(trace, *event) == member.element + 1) {
      return &*event;
    }
  }
  return nullptr;
}

// What it put on its streams there is done: that is not what it waits for.
bool is_through(const Run& run, const Member& member) {
  const std::vector<OperationText>& recent = text_of(run, member).recent;
  return std::all_of(recent.begin(), recent.end(), [&](const OperationText& operation) {
    constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
    return (operation.flags & kNot) != 0 || finished(run.processes[member.process], operation);
  });
}

bool has_ended_it(const Run& run, const Member& member) {
  constexpr uint32_t kOver = format::kFinalized | format::kDestroyed | format::kAborted;
  return (text_of(run, member).flags & kOver) != 0;
}

bool is_explained(const Run& run, const IncompleteEnd& end) {
  const auto takes_part = [&](Rank rank) {
    return contains(end.missing, rank) ||
           std::any_of(end.waiting.begin(), end.waiting.end(),
                       [&](const OpenEnd& open) { return open.rank == rank; });
  };
  return std::any_of(run.waits.hangs.begin(), run.waits.hangs.end(), [&](const Hang& hang) {
    return std::any_of(hang.roots.begin(), hang.roots.end(), takes_part) ||
           std::any_of(hang.victims.begin(), hang.victims.end(), takes_part);
  });
}

void add_missing(const Run& run, const Communicator& communicator, IncompleteEnd& end) {
  for (const Member& member : communicator.members) {
    const RankState& state = *state_of(run, member.rank);
    const bool beside =
        std::any_of(end.waiting.begin(), end.waiting.end(), [&](const OpenEnd& open) {
          return run.processes[open.process].host == run.processes[member.process].host &&
                 open.process != member.process;
        });
    if (beside && open_end(run.processes[member.process], member) == nullptr &&
        !has_ended_it(run, member) && !has_ended(state) && !ended_early(run, state)) {
      end.missing.push_back(member.rank);
    }
  }
}

std::optional<IncompleteEnd> look_at(const Run& run, size_t index) {
  const Communicator& communicator = run.communicators[index];
  IncompleteEnd end;
  end.communicator = index;
  for (const Member& member : communicator.members) {
    const CallRecord* event = open_end(run.processes[member.process], member);
    if (event == nullptr) {
      continue;
    }
    if (!is_through(run, member)) {
      return std::nullopt;
    }
    end.waiting.push_back({member.rank, member.process,
                           call_name(run.processes[member.process], event->call), event->enter,
                           event->stack});
    end.waited = std::max(end.waited, elapsed(event->enter, state_of(run, member.rank)->last_seen));
  }
  if (end.waiting.empty() || end.waited < run.hang_after) {
    return std::nullopt;
  }
  add_missing(run, communicator, end);
  return end.missing.empty() || is_explained(run, end) ? std::nullopt : std::optional(end);
}

}  // namespace

std::vector<IncompleteEnd> incomplete_ends(const Run& run) {
  std::vector<IncompleteEnd> found;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (auto end = look_at(run, i)) {
      found.push_back(std::move(*end));
    }
  }
  return found;
}

}  // namespace traintrace
