#include "analyzer/model/process/job_end.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// When its process was seen to be there no more: an exit record is made before that.  0: nobody
// saw.
TimeNs gone_at(const Run& run, const RankState& state) {
  const TimeNs gone = trace_of(run, state).gone;
  return gone == 0 ? 0 : std::max(gone, state.life.ended);
}

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

}  // namespace

EndedBy RankEnd::by() const {
  if (status < 0 && signal == 0) {
    return EndedBy::kUnknown;
  }
  const int number = signal != 0 ? signal : status - kStatusOfSignals;
  return is_stop_signal(number) ? EndedBy::kStop
         : number == SIGKILL    ? EndedBy::kKill
                                : EndedBy::kItself;
}

namespace {

std::vector<RankEnd> ends_of(const Run& run) {
  std::vector<RankEnd> ends;
  for (const RankState& state : run.ranks) {
    if (const auto end = failure_of(run, state)) {
      ends.push_back(*end);
    } else if (state.ending == Ending::kGone && state.life.evidence == EndEvidence::kNoted &&
               trace_of(run, state).wait_status < 0) {
      ends.push_back({&state, state.life.ended});
    }
  }
  std::stable_sort(ends.begin(), ends.end(),
                   [](const RankEnd& a, const RankEnd& b) { return a.time < b.time; });
  return ends;
}

}  // namespace

std::vector<RankEnd> failures_of(const Run& run) {
  std::vector<RankEnd> ends = ends_of(run);
  std::erase_if(ends, [](const RankEnd& end) { return end.by() == EndedBy::kUnknown; });
  return ends;
}

JobEnd::JobEnd(const Run& run) : run_(run), ends_(ends_of(run)), stopped_(has_stopped_all()) {}

// Soon: whoever outlives the first by more than a job's stop takes had not been stopped with it.  A
// handler of that signal may let it end normally, before the others die of it.
bool JobEnd::has_stopped_all() const {
  if (ends_.empty() || ends_.front().by() != EndedBy::kStop || run_.ranks.size() < 2) {
    return false;
  }
  const RankEnd& first = ends_.front();
  return std::all_of(run_.ranks.begin(), run_.ranks.end(), [&](const RankState& state) {
    const TimeNs end = known_until(run_, state);
    return has_ended(state) &&
           !is_certainly_before(run_, state, elapsed(-kAliveUncertain, end), *first.state,
                                first.time) &&
           elapsed(first.time, end) <= kStopWithin;
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

std::vector<RankEnd>::const_iterator JobEnd::end_of(const RankState& state) const {
  return std::find_if(ends_.begin(), ends_.end(),
                      [&](const RankEnd& end) { return end.state->rank == state.rank; });
}

// Where their clocks do not tell, a crash or a kill came before another gave up.
bool JobEnd::came_before(const RankEnd& other, const RankEnd& own) const {
  // By one hand: the kernel may end several for want of memory.
  const bool by_signal = own.by() == EndedBy::kStop || own.by() == EndedBy::kKill;
  const bool together = by_signal && other.by() == own.by() &&
                        std::abs(elapsed(other.time, own.time)) <= kAliveUncertain;
  if (together || other.state->process == own.state->process) {
    return false;
  }
  const bool undecided = !is_certainly_before(run_, *own.state, own.time, *other.state, other.time);
  return is_certainly_before(run_, *other.state, other.time, *own.state, own.time) ||
         (undecided && own.by() == EndedBy::kItself && !may_have_given_up(run_, *other.state));
}

const RankEnd* JobEnd::failure_before(const RankState& state, const Ranks& waiting) const {
  const auto own = end_of(state);
  if (own == ends_.end() || (own->by() == EndedBy::kItself && !may_have_given_up(run_, state))) {
    return nullptr;
  }
  const auto first = std::find_if(ends_.begin(), ends_.end(), [&](const RankEnd& end) {
    return end.state->rank != state.rank && !contains(waiting, end.state->rank) &&
           came_before(end, *own) && !went_on_after(state, end.time);
  });
  return first == ends_.end() ? nullptr : &*first;
}

bool JobEnd::may_follow_another(const RankState& state, const Ranks& waiting) const {
  const auto own = end_of(state);
  return own != ends_.end() && may_have_given_up(run_, state) &&
         std::any_of(ends_.begin(), ends_.end(), [&](const RankEnd& end) {
           return end.state->process != state.process && !contains(waiting, end.state->rank) &&
                  !is_certainly_before(run_, state, own->time, *end.state, end.time) &&
                  !went_on_after(state, end.time);
         });
}

bool JobEnd::was_first(const RankState& state) const {
  const auto own = end_of(state);
  const TimeNs gone = gone_at(run_, state);
  return own != ends_.end() && run_.ranks.size() > 1 &&
         (own->by() == EndedBy::kItself || own->by() == EndedBy::kKill) && gone != 0 &&
         ends_.size() == run_.ranks.size() &&
         std::all_of(ends_.begin(), ends_.end(), [&](const RankEnd& end) {
           return end.state == own->state ||
                  (end.by() == EndedBy::kStop && end.state->life.evidence == EndEvidence::kNoted &&
                   is_certainly_before(run_, *own->state, gone, *end.state, end.time));
         });
}

bool JobEnd::was_asked_to(const RankState& state) const {
  const auto own = end_of(state);
  return own != ends_.end() && own->by() == EndedBy::kStop;
}

TimeNs JobEnd::end_began(const RankState& state, const Ranks& waiting) const {
  const RankEnd* const failure = failure_before(state, waiting);
  return failure != nullptr ? failure->time : ends_.front().time;
}

std::vector<RankEnd> JobEnd::unknown() const {
  std::vector<RankEnd> ends = ends_;
  std::erase_if(ends, [](const RankEnd& end) { return end.by() != EndedBy::kUnknown; });
  return ends;
}

bool JobEnd::is_consequence(const RankState& state, const Ranks& waiting) const {
  return (stopped_ && has_ended(state)) || failure_before(state, waiting) != nullptr;
}

}  // namespace traintrace
