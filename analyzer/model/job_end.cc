#include "analyzer/model/job_end.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <optional>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/ending.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/run_clocks.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

std::optional<RankEnd> failure_of(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  if (exited_abnormally(run, state)) {
    return RankEnd{&state, trace.exited, trace.exit_status, 0};
  }
  const int ended = trace.wait_status;
  if (state.ending != Ending::kGone || ended < 0) {
    return std::nullopt;
  }
  if (WIFSIGNALED(ended)) {
    return RankEnd{&state, state.life.ended, -1, WTERMSIG(ended)};
  }
  return WIFEXITED(ended) && WEXITSTATUS(ended) != 0
             ? std::optional(RankEnd{&state, state.life.ended, WEXITSTATUS(ended), 0})
             : std::nullopt;
}

bool is_certainly_before(const Run& run, const RankState& one, TimeNs one_time,
                         const RankState& other, TimeNs other_time) {
  const TimeNs off = uncertainty_between(run, trace_of(run, one), trace_of(run, other));
  return off != kNoCommonClock && elapsed(one_time, other_time) > off;
}

// When it is known to have ended; none: it is not known to have.
std::optional<TimeNs> end_of(const Run& run, const RankState& state) {
  return !has_ended(state) ? std::nullopt : std::optional(known_until(run, state));
}

}  // namespace

EndedBy RankEnd::by() const {
  const int number = signal != 0 ? signal : status - 128;
  return is_stop_signal(number) ? EndedBy::kStop
         : number == SIGKILL    ? EndedBy::kKill
                                : EndedBy::kItself;
}

std::vector<RankEnd> failures_of(const Run& run) {
  std::vector<RankEnd> ends;
  for (const RankState& state : run.ranks) {
    if (const auto end = failure_of(run, state)) {
      ends.push_back(*end);
    }
  }
  std::stable_sort(ends.begin(), ends.end(),
                   [](const RankEnd& a, const RankEnd& b) { return a.time < b.time; });
  return ends;
}

JobEnd::JobEnd(const Run& run) : run_(run), ends_(failures_of(run)), stopped_(has_stopped_all()) {}

// Soon: whoever outlives the first by more than a job's stop takes had not been stopped with it.
bool JobEnd::has_stopped_all() const {
  if (ends_.empty() || ends_.front().by() != EndedBy::kStop || run_.ranks.size() < 2) {
    return false;
  }
  const RankEnd& first = ends_.front();
  return std::all_of(run_.ranks.begin(), run_.ranks.end(), [&](const RankState& state) {
    const auto end = end_of(run_, state);
    return end && !is_certainly_before(run_, state, *end, *first.state, first.time) &&
           elapsed(first.time, *end) <= kStopWithin;
  });
}

// It has come to operations long after: the failed one was not needed for that.
bool JobEnd::went_on_after(const RankState& state, TimeNs time) const {
  return std::any_of(
      run_.communicators.begin(), run_.communicators.end(), [&](const Communicator& communicator) {
        const Member* const member = member_of(communicator, state.rank);
        return member != nullptr && communicator.size != 1 &&
               elapsed(time, last_move(run_.processes[member->process], text_of(run_, *member))) >
                   kStopWithin;
      });
}

const RankEnd* JobEnd::failure_before(const RankState& state) const {
  const auto own = std::find_if(ends_.begin(), ends_.end(),
                                [&](const RankEnd& end) { return end.state->rank == state.rank; });
  if (own == ends_.end() || own->by() == EndedBy::kItself) {
    return nullptr;
  }
  const auto first = std::find_if(ends_.begin(), own, [&](const RankEnd& end) {
    // By one hand: the kernel may end several for want of memory.
    const bool together = end.by() == own->by() && elapsed(end.time, own->time) <= kAliveUncertain;
    return !together && end.state->process != state.process &&
           is_certainly_before(run_, *end.state, end.time, state, own->time) &&
           !went_on_after(state, end.time);
  });
  return first == own ? nullptr : &*first;
}

TimeNs JobEnd::end_began(const RankState& state) const {
  const RankEnd* const failure = failure_before(state);
  return failure != nullptr ? failure->time : ends_.front().time;
}

bool JobEnd::is_consequence(const RankState& state) const {
  return (stopped_ && has_ended(state)) || failure_before(state) != nullptr;
}

}  // namespace traintrace
