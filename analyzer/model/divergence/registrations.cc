#include "analyzer/model/divergence/registrations.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"

namespace traintrace {
namespace {

constexpr std::string_view kCall = "ncclCommWindowRegister";

bool is_inside(const ProcessTrace& trace, const ThreadText& thread) {
  const ThreadText::Open& open = thread.open[1];
  return open.enter != 0 && call_name(trace, open.call) == kCall;
}

// The newest of a thread that is inside: times of two looks at a running process may differ.
const CallRecord* open_registration(const ProcessTrace& trace) {
  const CallRecord* found = nullptr;
  for (const ThreadText& thread : trace.threads) {
    for (const CallRecord& event : trace.events) {
      const bool open = is_inside(trace, thread) && event.thread == thread.serial &&
                        event.call == thread.open[1].call && !event.returned && !event.leave_lost;
      found = open && (found == nullptr || found->enter <= event.enter) ? &event : found;
    }
  }
  return found;
}

// Which rank of a process that holds several is meant is not looked for.
bool is_one_rank(const Run& run, size_t process) {
  return states_of(run, process).size() == 1;
}

// It did not come while the others waited for as long as a hang takes: that it ended after that is
// no reason.
bool stayed_away(const Run& run, const RankState& state, const RegistrationMismatch& mismatch) {
  return std::any_of(mismatch.waiting.begin(), mismatch.waiting.end(), [&](const auto& one) {
    return elapsed(one.since, state.last_seen) >= run.hang_after;
  });
}

// Nothing, if of somebody it cannot be told what they are in.
std::optional<RegistrationMismatch> mismatch_in(const Run& run, size_t index) {
  RegistrationMismatch mismatch;
  mismatch.communicator = index;
  Ranks others;
  for (const Member& member : run.communicators[index].members) {
    const RankState& state = *state_of(run, member.rank);
    const ProcessTrace& trace = run.processes[member.process];
    const CallRecord* event = open_registration(trace);
    if (!is_one_rank(run, member.process) || (event == nullptr && is_registering(trace))) {
      return std::nullopt;
    }
    if (event != nullptr && value_of(trace, *event, "comm") == member.element + 1) {
      mismatch.waiting.push_back(
          {member.rank, member.process, value_of(trace, *event, "bytes").value_or(0),
           value_of(trace, *event, "flags").value_or(0), event->enter, event->stack});
      mismatch.waited = std::max(mismatch.waited, elapsed(event->enter, state.last_seen));
    } else if (!ended_early(run, state)) {
      insert(others, member.rank);
    }
  }
  std::copy_if(others.begin(), others.end(), std::back_inserter(mismatch.missing), [&](Rank rank) {
    const RankState& state = *state_of(run, rank);
    return !has_ended(state) || stayed_away(run, state, mismatch);
  });
  return mismatch;
}

}  // namespace

bool is_registering(const ProcessTrace& trace) {
  return std::any_of(trace.threads.begin(), trace.threads.end(),
                     [&](const ThreadText& thread) { return is_inside(trace, thread); });
}

bool is_of_one_size(const RegistrationMismatch& mismatch) {
  return std::all_of(mismatch.waiting.begin(), mismatch.waiting.end(), [&](const auto& one) {
    return one.bytes == mismatch.waiting.front().bytes &&
           one.flags == mismatch.waiting.front().flags;
  });
}

std::vector<RegistrationMismatch> registration_mismatches(const Run& run) {
  std::vector<RegistrationMismatch> found;
  if (std::none_of(run.processes.begin(), run.processes.end(), is_registering)) {
    return found;
  }
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    auto mismatch = mismatch_in(run, i);
    if (mismatch && mismatch->waited >= run.hang_after &&
        (!mismatch->missing.empty() || !is_of_one_size(*mismatch))) {
      found.push_back(std::move(*mismatch));
    }
  }
  return found;
}

bool is_registration_mismatch(const Run& run, const Hang& hang) {
  const std::vector<RegistrationMismatch> mismatches = registration_mismatches(run);
  return std::any_of(mismatches.begin(), mismatches.end(), [&](const auto& mismatch) {
    return std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
      return contains(mismatch.missing, rank) ||
             std::any_of(mismatch.waiting.begin(), mismatch.waiting.end(),
                         [&](const Registration& one) { return one.rank == rank; });
    });
  });
}

}  // namespace traintrace
