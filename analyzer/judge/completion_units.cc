// The units of a stream in the order in which they have to be complete, and the fixpoint over them.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/judge/completion.h"
#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/host_functions.h"
#include "analyzer/model/waiting/stalls.h"
#include "analyzer/model/waiting/stream_order.h"

namespace traintrace {

void Completion::make_units() {
  for (auto& [stream, parts] : streams_) {
    const bool placed = std::all_of(parts.begin(), parts.end(), [&](size_t part) {
      const uint64_t position = parts_[part].operation->position;
      return position != 0 && position != format::kNeverReached;  // after an abort it says nothing
    });
    std::stable_sort(parts.begin(), parts.end(), [&](size_t a, size_t b) {
      const OperationText& one = *parts_[a].operation;
      const OperationText& other = *parts_[b].operation;
      return placed ? one.position < other.position : one.enter < other.enter;
    });
    std::vector<size_t> units;
    for (const size_t at : parts) {
      MatchPart& part = parts_[at];
      const bool joins =
          !units.empty() &&
          may_be_one_group(*parts_[units_[units.back()].parts.back()].operation, *part.operation);
      if (!joins) {
        if (!units.empty()) {
          units_[units.back()].next.push_back(units_.size());
        }
        units.push_back(units_.size());
        Unit& unit = units_.emplace_back();
        unit.process = part.member->process;
        unit.before = units.size() > 1 ? 1 : 0;
      }
      part.unit = units.back();
      // What comes of it is not defined: its sender may wait as well.
      part.needs = part.needs || (matches_[part.match].differs &&
                                  waits_for_certain(run_, *part.member, *part.operation));
      units_[part.unit].parts.push_back(at);
      units_[part.unit].unmet += part.needs ? 1 : 0;
      ++matches_[part.match].not_begun;
    }
    parts = std::move(units);
  }
}

bool Completion::is_evicted(const OperationText& operation) const {
  return std::any_of(evicted_.begin(), evicted_.end(),
                     [&](const OperationText& other) { return &other == &operation; });
}

void Completion::order_by_events() {
  for (auto& [stream, units] : streams_) {
    const size_t process = units_[units.front()].process;
    if (!run_.stream_orders.contains(process)) {
      continue;
    }
    for (auto other = streams_.lower_bound({stream.first, 0});
         other != streams_.end() && other->first.first == stream.first; ++other) {
      if (other->first == stream) {
        continue;
      }
      for (const size_t unit : units) {
        const OperationText& then = *parts_[units_[unit].parts.front()].operation;
        if (is_evicted(then)) {
          continue;  // when it was put on its stream is not known
        }
        const auto last =
            std::find_if(other->second.rbegin(), other->second.rend(), [&](size_t before) {
              const OperationText& first = *parts_[units_[before].parts.front()].operation;
              return is_told_behind(run_, process, {first.stream, first.enter}, then) &&
                     !may_be_one_group(first, then);
            });
        if (last != other->second.rend()) {
          units_[*last].next.push_back(unit);
          ++units_[unit].before;
        }
      }
    }
  }
}

// What it issued before the oldest operation that is kept may not be over either.
bool Completion::may_follow_evicted(const Member& member) const {
  const std::vector<OperationText>& recent = text_of(run_, member).recent;
  return !recent.empty() && recent.front().index != 0 &&
         is_pending(run_.processes[member.process], recent.front());
}

// A message is behind a function of the job's that runs; or the GPU said that it has not begun it,
// though nothing of NCCL lies before it.  Of collectives stalls tell (model/waiting/stalls.h).
bool Completion::is_held_by_stream(const Unit& unit, const Unit& at_first) const {
  return std::any_of(unit.parts.begin(), unit.parts.end(), [&](size_t index) {
    const OperationText& operation = *parts_[index].operation;
    return !operation.collective &&
           (function_before(run_, unit.process, operation) != nullptr ||
            (at_first.before == 0 && !may_follow_evicted(*parts_[index].member) &&
             gpu_state(run_.processes[unit.process], operation) == GpuState::kEnqueued));
  });
}

void Completion::begin(size_t at, std::vector<size_t>& complete) {
  Unit& unit = units_[at];
  for (const size_t part : unit.parts) {
    Match& match = matches_[parts_[part].match];
    if (--match.not_begun != 0 || !match.missing.empty() || match.differs) {
      continue;
    }
    match.met = true;
    for (const size_t other : match.parts) {
      Unit& theirs = units_[parts_[other].unit];
      if (parts_[other].needs && --theirs.unmet == 0 && parts_[other].unit != at) {
        complete.push_back(parts_[other].unit);
      }
    }
  }
  if (unit.unmet == 0) {
    complete.push_back(at);
  }
}

// What lacks nothing but its own stream is stopped there.  Sends that may have been sent ahead are
// taken to be through, unless nothing else is left that their host could wait for.
void Completion::solve() {
  const Start start{units_, matches_};
  complete_all();
  bool any = false;
  for (size_t i = 0; i < units_.size(); ++i) {
    units_[i].stopped = units_[i].is_complete() && is_held_by_stream(units_[i], start.units[i]);
    any = any || units_[i].stopped;
  }
  if (any) {
    complete_again(start);
  }
  const std::vector<size_t> held = held_sends();
  for (const size_t index : held) {
    parts_[index].needs = true;
  }
  if (!held.empty()) {
    complete_again(start);
  }
}

void Completion::complete_again(const Start& start) {
  matches_ = start.matches;
  for (size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    unit.before = start.units[i].before + (unit.stopped ? 1 : 0);
    unit.unmet = static_cast<size_t>(std::count_if(
        unit.parts.begin(), unit.parts.end(), [&](size_t part) { return parts_[part].needs; }));
  }
  complete_all();
}

// Of ranks that are through with all that they have issued, as far as that goes, and wait.
std::vector<size_t> Completion::held_sends() const {
  std::set<Rank> open;
  for (const MatchPart& part : parts_) {
    if (!units_[part.unit].is_complete()) {
      open.insert(part.member->rank);
    }
  }
  std::vector<size_t> held;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const MatchPart& part = parts_[i];
    if (!part.needs && !part.operation->collective && !matches_[part.match].met &&
        !open.contains(part.member->rank) &&
        waits_for_certain(run_, *part.member, *part.operation)) {
      held.push_back(i);
    }
  }
  return held;
}

void Completion::complete_all() {
  std::vector<size_t> complete;
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    if (units_[unit].before == 0) {
      begin(unit, complete);
    }
  }
  while (!complete.empty()) {
    const size_t unit = complete.back();
    complete.pop_back();
    for (const size_t next : units_[unit].next) {
      if (--units_[next].before == 0) {
        begin(next, complete);
      }
    }
  }
}

namespace {

// What it calls there afterwards is on the same stream.
void add_from(const Run& run, const Member& member, uint64_t index, BlockedOperations& blocked) {
  for (const OperationText& operation : text_of(run, member).recent) {
    if (operation.index >= index && !finished(run.processes[member.process], operation)) {
      blocked.insert(&operation);
    }
  }
}

}  // namespace

BlockedOperations blocked_operations(const Run& run) {
  BlockedOperations blocked;
  if (knows_order_only(run)) {
    return blocked;
  }
  const Completion completion(run, {});
  for (const MatchPart& part : completion.parts()) {
    if (!completion.can_complete(part)) {
      blocked.insert(part.operation);
    }
  }
  for (const RootStall& root : root_stalls(run)) {
    for (const StalledRank& rank : root.stall.ranks) {
      const Communicator& communicator = run.communicators[root.stall.communicator];
      add_from(run, *member_of(communicator, rank.rank), rank.operation.index, blocked);
    }
  }
  return blocked;
}

}  // namespace traintrace
