#include "analyzer/model/waiting/misuse.h"

#include <algorithm>
#include <optional>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/model/waiting/hangs.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

const OperationText* first_failed(const CommunicatorText& text) {
  const auto found = std::find_if(
      text.recent.begin(), text.recent.end(),
      [](const OperationText& operation) { return (operation.flags & format::kFailed) != 0; });
  return found == text.recent.end() ? nullptr : &*found;
}

// Whether this process had been waiting in NCCL, on any communicator, when it first aborted one.
bool had_waited(const ProcessTrace& trace) {
  TimeNs aborted = 0;
  for (const CommunicatorText& text : trace.communicators) {
    if ((text.flags & format::kAborted) != 0 && text.ended != 0) {
      aborted = aborted == 0 ? text.ended : std::min(aborted, text.ended);
    }
  }
  const auto waits = [&](const OperationText& operation) {
    return operation.enter < aborted && elapsed(operation.enter, aborted) >= kAbortedForAWait &&
           !finished(trace, operation);
  };
  return aborted != 0 &&
         std::any_of(trace.communicators.begin(), trace.communicators.end(),
                     [&](const CommunicatorText& text) {
                       return std::any_of(text.recent.begin(), text.recent.end(), waits);
                     });
}

// Whatever NCCL answered.
std::optional<Misuse> use_after_end(const ProcessTrace& trace, size_t element,
                                    MisuseIs if_aborted) {
  const CommunicatorText& text = trace.communicators[element];
  if ((text.flags & format::kAfterEnd) == 0 || text.parent_index == 0 ||
      text.parent_index > trace.communicators.size()) {
    return std::nullopt;
  }
  const OperationText* operation = first_failed(text);
  Misuse misuse;
  misuse.element = text.parent_index - 1;
  if (operation != nullptr) {
    misuse.operation = *operation;
  }
  if ((trace.communicators[misuse.element].flags & format::kAborted) != 0) {
    misuse.is = if_aborted;
  }
  return operation == nullptr ? std::nullopt : std::optional(misuse);
}

// NCCL refuses what comes before an earlier call is done.
std::optional<Misuse> use_too_early(const ProcessTrace& trace, size_t element) {
  const CommunicatorText& text = trace.communicators[element];
  constexpr uint32_t kOver = format::kInitFailed | format::kAborted | format::kAsyncError;
  if ((text.flags & format::kNonBlocking) == 0 || (text.flags & kOver) != 0) {
    return std::nullopt;
  }
  const OperationText* failed = first_failed(text);
  if (failed == nullptr) {
    return std::nullopt;
  }
  const bool under_way =
      (text.flags & format::kInitDone) == 0 || failed->enter < text.ready ||
      std::any_of(text.recent.begin(), text.recent.end(), [&](const OperationText& other) {
        return other.index < failed->index && (other.flags & format::kUntracked) != 0;
      });
  Misuse misuse;
  misuse.kind = MisuseKind::kTooEarly;
  misuse.element = element;
  misuse.operation = *failed;
  return under_way ? std::optional(misuse) : std::nullopt;
}

bool all_roots(const Run& run, const Hang& hang, bool (*test)(const Run&, const Member&)) {
  const Communicator& communicator = run.communicators[run.waits.waits[hang.wait].communicator];
  return !hang.roots.empty() && hang.divergences.empty() &&
         std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
           const Member* member = member_of(communicator, rank);
           return member != nullptr && test(run, *member);
         });
}

bool has_error(const Run& run, const Member& member) {
  return (text_of(run, member).flags & format::kAsyncError) != 0;
}

// It was told of the error first, and ended by a failure: as a job does that asks for errors.
bool exited_for_error(const Run& run, const Member& member) {
  const ProcessTrace& trace = run.processes[member.process];
  const TimeNs told = text_of(run, member).errored;
  return has_error(run, member) && trace.exit_status != 0 && told != 0 && told <= trace.exited;
}

bool has_destroyed(const Run& run, const Member& member) {
  const uint32_t flags = text_of(run, member).flags;
  return (flags & format::kDestroyed) != 0 && (flags & format::kAborted) == 0;
}

bool has_misused(const Run& run, const Member& member) {
  const std::vector<Misuse> misuses = misuses_of(run);
  return std::any_of(misuses.begin(), misuses.end(), [&](const Misuse& misuse) {
    return misuse.rank == member.rank && misuse.is == MisuseIs::kCause;
  });
}

bool is_explained(const Run& run, size_t communicator) {
  return std::any_of(run.divergences.begin(), run.divergences.end(),
                     [&](const Divergence& one) {
                       return one.communicator == communicator &&
                              one.kind != DivergenceKind::kHarmlessType &&
                              one.kind != DivergenceKind::kHarmlessMessageType;
                     }) ||
         std::any_of(run.waits.hangs.begin(), run.waits.hangs.end(), [&](const Hang& hang) {
           return run.waits.waits[hang.wait].communicator == communicator &&
                  may_have_died(hang.fate);
         });
}

// Who was first is told by less than what their clocks agree to.
bool are_at_one_moment(const Run& run, const Communicator& communicator, const Member& first) {
  const TimeNs time = text_of(run, first).errored;
  return std::any_of(
      communicator.members.begin(), communicator.members.end(), [&](const Member& member) {
        const TimeNs off =
            uncertainty_between(run, run.processes[first.process], run.processes[member.process]);
        return has_error(run, member) && off != 0 &&
               elapsed(time, text_of(run, member).errored) <= off;
      });
}

void order_by_time(const Run& run, const Communicator& communicator, AsyncErrors& errors) {
  bool told = true;
  TimeNs first = 0;
  const Member* first_member = nullptr;
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    if (has_error(run, member)) {
      told = told && text.errored != 0;
      errors.others.push_back(member.rank);
      if (first == 0 || text.errored < first) {
        first = text.errored;
        first_member = &member;
        errors.first = {member.rank};
        errors.error = text.async_error;
      }
    }
  }
  errors.time = first;
  if (!told || first_member == nullptr || are_at_one_moment(run, communicator, *first_member)) {
    errors.first = errors.others;
  }
  std::erase_if(errors.others, [&](Rank rank) { return contains(errors.first, rank); });
}

}  // namespace

std::vector<Misuse> misuses_of(const Run& run) {
  std::vector<Misuse> found;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    const MisuseIs if_aborted = had_waited(trace) ? MisuseIs::kConsequence : MisuseIs::kCause;
    for (size_t i = 0; i < trace.communicators.size(); ++i) {
      const CommunicatorText& text = trace.communicators[i];
      if (state.device >= 0 && text.device >= 0 && text.device != state.device) {
        continue;
      }
      auto misuse = use_after_end(trace, i, if_aborted);
      misuse = misuse ? misuse : use_too_early(trace, i);
      if (misuse) {
        misuse->rank = state.rank;
        misuse->process = state.process;
        found.push_back(*misuse);
      }
    }
  }
  return found;
}

std::vector<AsyncErrors> async_errors_of(const Run& run) {
  std::vector<AsyncErrors> found;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    AsyncErrors errors;
    errors.communicator = i;
    order_by_time(run, run.communicators[i], errors);
    if (!errors.first.empty() && !is_explained(run, i)) {
      found.push_back(errors);
    }
  }
  return found;
}

bool is_misuse(const Run& run, const Hang& hang) {
  return hang.fate != Fate::kCycle && all_roots(run, hang, has_misused);
}

bool is_async_error(const Run& run, const Hang& hang) {
  return (hang.fate == Fate::kAlive && all_roots(run, hang, has_error)) ||
         (hang.fate == Fate::kExited && all_roots(run, hang, exited_for_error));
}

bool is_destroyed(const Run& run, const Hang& hang) {
  return hang.fate == Fate::kAlive && run.waits.waits[hang.wait].kind != WaitKind::kInit &&
         all_roots(run, hang, has_destroyed);
}

}  // namespace traintrace
