#include "analyzer/judge/patience.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool is_same_site(const OperationText& a, const OperationText& b) {
  return a.stack == b.stack && (a.stack != 0 || (a.call == b.call && a.count == b.count));
}

// Times in a damaged trace may be anything.
TimeNs twice(TimeNs time) {
  TimeNs result = 0;
  return __builtin_mul_overflow(time, 2, &result) ? time : result;
}

struct Arrival {
  size_t members = 0;
  TimeNs last = 0;
};

// By sequence.
std::map<uint64_t, Arrival> arrivals_in(const Run& run, const Wait& wait) {
  std::map<uint64_t, Arrival> arrivals;
  for (const Member& member : run.communicators[wait.communicator].members) {
    for (const OperationText& operation : text_of(run, member).recent) {
      if (operation.collective && operation.sequence < wait.sequence) {
        Arrival& arrival = arrivals[operation.sequence];
        ++arrival.members;
        arrival.last = std::max(arrival.last, operation.enter);
      }
    }
  }
  return arrivals;
}

// It issued work for its GPU a short while ago, or waited for it as a loop does that reads a result
// of each batch, and has been in no call for long.  A query says neither.
bool is_working(const Run& run, const RankState& state) {
  constexpr std::string_view kWork[] = {"launch", "graph-launch", "copy", "set", "sync"};
  const ProcessTrace& trace = trace_of(run, state);
  const TimeNs until = known_until(run, state);
  const auto is_lately = [&](TimeNs time) { return elapsed(time, until) < run.hang_after; };
  return std::any_of(trace.threads.begin(), trace.threads.end(), [&](const ThreadText& thread) {
    const CallSchema* const schema =
        thread.last_call ? schema_of(trace, *thread.last_call) : nullptr;
    const bool hangs =
        std::any_of(std::begin(thread.open), std::end(thread.open),
                    [&](const auto& open) { return open.enter != 0 && !is_lately(open.enter); });
    return schema != nullptr && works_for(state, thread) && !hangs &&
           std::find(std::begin(kWork), std::end(kWork), schema->kind) != std::end(kWork) &&
           is_lately(thread.last_call_time);
  });
}

bool is_same_frame(const FrameNow& now, const PythonFrameText& recorded) {
  return now.function == recorded.function && now.file == recorded.file;
}

// It is in that function, or in one that it calls, and came there by the same calls.
bool is_within(const ThreadNow& thread, const StackText& stack, const CodePlace& place) {
  const auto function = std::find_if(stack.python.begin(), stack.python.end(), [&](const auto& it) {
    return it.file == place.file && it.function == place.function && it.line == place.line;
  });
  if (function == stack.python.end()) {
    return false;
  }
  // Of deep stacks the record keeps the inner frames only.
  const auto callers = stack.python.end() - function;
  for (auto now = thread.python.begin(); thread.python.end() - now >= callers; ++now) {
    if (is_same_frame(*now, *function) &&
        std::equal(function + 1, stack.python.end(), now + 1,
                   [](const PythonFrameText& recorded, const FrameNow& caller) {
                     return is_same_frame(caller, recorded) && caller.line == recorded.line;
                   })) {
      return true;
    }
  }
  return false;
}

// Of a loop that polls, all but the poll is seen: now the pause between two queries, now what it
// calls to know whether it may stop.  That it goes round was recorded, and says no more than that.
bool is_around_its_poll(const Run& run, const RankState& state, const ThreadNow& thread) {
  const ProcessTrace& trace = trace_of(run, state);
  const std::optional<Activity> activity = activity_of(run, state);
  if (!activity || activity->open || activity->queries == 0 ||
      elapsed(activity->time, known_until(run, state)) > kPollsLately) {
    return false;
  }
  const bool at_rest = thread.waiting == Waiting::kSleep || thread.waiting == Waiting::kRuns ||
                       thread.waiting == Waiting::kGil;
  const auto stack = trace.stacks.find(activity->stack);
  const std::optional<CodePlace> place = user_place(trace, state.rank, activity->stack);
  return at_rest && place && stack != trace.stacks.end() &&
         is_within(thread, stack->second, *place);
}

}  // namespace

TimeNs longest_wait_before(const Run& run, const Wait& wait) {
  if (wait.kind != WaitKind::kCollective) {
    return 0;
  }
  const Communicator& communicator = run.communicators[wait.communicator];
  const std::map<uint64_t, Arrival> arrivals = arrivals_in(run, wait);
  TimeNs longest = 0;
  for (const Waiter& waiter : wait.waiters) {
    const Member* const member = member_of(communicator, waiter.rank);
    OperationText own = wait.details;
    own.stack = waiter.stack;
    for (const OperationText& operation :
         member == nullptr ? std::vector<OperationText>() : text_of(run, *member).recent) {
      const auto arrival = arrivals.find(operation.sequence);
      if (operation.collective && arrival != arrivals.end() &&
          arrival->second.members == communicator.members.size() && is_same_site(operation, own)) {
        longest = std::max(longest, elapsed(operation.enter, arrival->second.last));
      }
    }
  }
  return longest;
}

// Without Python frames a thread that runs has none at all, and two places cannot be told apart.
bool is_seen_to_move(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  const ThreadNow* const thread = seen_outside(run, state);
  return trace.running_now == true && thread != nullptr && !thread->steady &&
         !thread->python.empty() && thread->state != 'T' && thread->state != 't' &&
         !is_around_its_poll(run, state, *thread);
}

TimeNs patience_with(const Run& run, const RankState& awaited, const Wait& wait) {
  const bool is_at_work = is_working(run, awaited) || is_seen_to_move(run, awaited);
  const TimeNs least = is_at_work ? std::max(kWorkingPatience, run.hang_after) : run.hang_after;
  return std::max(least, twice(longest_wait_before(run, wait)));
}

}  // namespace traintrace
