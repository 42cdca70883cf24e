// How the ranks of a job ended, as far as that is known: who failed, and whom a launcher, a
// scheduler or a person ended because of that, or for reasons of their own.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

enum class EndedBy : uint8_t {
  kUnknown,  // its end was noted, and not how
  kItself,   // a failing status, or a signal that a process raises or brings upon itself
  kStop,     // a signal that asks it to end
  kKill,     // SIGKILL: whoever asked before, or the kernel for want of memory
};

// Shells, and handlers of signals, end with the signal's number and this.
inline constexpr int kStatusOfSignals = 128;

// Of a rank that is known to have ended, and not with status 0.
struct RankEnd {
  const RankState* state = nullptr;
  TimeNs time = 0;
  int status = -1;  // -1: a signal ended it, or nobody knows
  int signal = 0;   // 0: none did, or nobody knows

  EndedBy by() const;
};

// Those of which it is known how they ended; by time.
std::vector<RankEnd> failures_of(const Run& run);

class JobEnd {
 public:
  explicit JobEnd(const Run& run);

  // In all of these `waiting` are the ranks that wait for it: their ends are no reason for its own.

  // It ended because of a stop of the whole job, or after `failure_before`: that others miss it is
  // no sign that anything was wrong with it.
  bool is_consequence(const RankState& state, const Ranks& waiting) const;
  // The first that had failed when that rank gave up or was ended from outside, while the job did
  // not go on any more; null: none.
  const RankEnd* failure_before(const RankState& state, const Ranks& waiting) const;
  // It gave up, and another may have failed before: which was first is open.
  bool may_follow_another(const RankState& state, const Ranks& waiting) const;
  // When that failure or stop was, of a rank whose end is a consequence: what it did since says
  // nothing.
  TimeNs end_began(const RankState& state, const Ranks& waiting) const;

  // It failed or was killed, as was noted, and all others were asked to end later: by what noticed.
  bool was_first(const RankState& state) const;
  // By a signal of somebody's; that others missed it for long by then was the reason, if any.
  bool was_asked_to(const RankState& state) const;
  // All have ended, and the first of them was asked to.
  bool was_stopped() const { return stopped_; }
  // Those of which it was noted that they ended and not how; by time.
  std::vector<RankEnd> unknown() const;

 private:
  bool has_stopped_all() const;
  bool came_before(const RankEnd& other, const RankEnd& own) const;
  std::vector<RankEnd>::const_iterator end_of(const RankState& state) const;
  bool went_on_after(const RankState& state, TimeNs time) const;

  const Run& run_;
  std::vector<RankEnd> ends_;
  bool stopped_ = false;
};

}  // namespace traintrace
