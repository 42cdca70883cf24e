#include "analyzer/judge/frontier/standing.h"

#include <algorithm>
#include <tuple>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

Unit unit_from(size_t communicator, const Member& member,
               const std::vector<const OperationText*>& unfinished) {
  Unit unit{communicator, &member, {}};
  const OperationText& first = *unfinished.front();
  std::copy_if(unfinished.begin(), unfinished.end(), std::back_inserter(unit.parts),
               [&](const OperationText* other) {
                 return other == &first ||
                        (first.group != 0 && other->group == first.group && !first.collective);
               });
  return unit;
}

}  // namespace

bool is_unfinished(const ProcessTrace& trace, const OperationText& operation) {
  constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
  return is_flight_dump(trace) ? certainly_unfinished(gpu_state(trace, operation))
                               : (operation.flags & kNot) == 0 && operation.sequence != 0 &&
                                     !finished(trace, operation);
}

Standings::Standings(const Run& run) {
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    for (const Member& member : run.communicators[i].members) {
      add(run, {i, &member});
    }
  }
  for (const auto& [rank, unit] : frontiers_) {
    const ProcessTrace& trace = run.processes[unit.member->process];
    if (trace.facts.contains("entries-overwritten") && unit.first().enter <= oldest_.at(rank)) {
      wrapped_.insert(rank);
    }
  }
  OverwrittenFinder finder(run);
  for (const Rank rank : wrapped_) {
    find_overwritten(run, rank, finder);
  }
}

void Standings::add(const Run& run, const Membership& membership) {
  const Member& member = *membership.member;
  const ProcessTrace& trace = run.processes[member.process];
  Side& side = sides_[{member.process, member.element}];
  memberships_[member.rank].push_back(membership);
  if (!text_of(run, member).recent.empty()) {
    const TimeNs first = text_of(run, member).recent.front().enter;
    const auto [at, is_new] = oldest_.try_emplace(member.rank, first);
    at->second = std::min(at->second, first);
  }
  for (const OperationText& operation : text_of(run, member).recent) {
    if (operation.collective) {
      side.collectives.push_back(&operation);
    }
    // Where completed entries are left out, the one that closes a batch may be.
    if ((operation.flags & format::kUntracked) != 0 ||
        (!operation.collective && trace.facts.contains("entries-left-out"))) {
      untracked_.insert(member.rank);
    }
    if (is_unfinished(trace, operation)) {
      side.unfinished.push_back(&operation);
    }
  }
  if (side.unfinished.empty()) {
    return;
  }
  const auto at = frontiers_.find(member.rank);
  if (at == frontiers_.end() || side.unfinished.front()->enter < at->second.first().enter) {
    frontiers_[member.rank] = unit_from(membership.communicator, member, side.unfinished);
  }
}

void Standings::find_overwritten(const Run& run, Rank rank, OverwrittenFinder& finder) {
  const Overwritten overwritten = finder.find(memberships_.at(rank));
  switch (overwritten.kind) {
    case OverwrittenKind::kNothing:
      return;
    case OverwrittenKind::kStandsAt:
      return stand_at(run, rank, overwritten, finder);
    case OverwrittenKind::kSomewhere:
      cut_.insert(rank);
      return;
  }
}

// What it was called with is not kept; it was called before all that is.
void Standings::stand_at(const Run& run, Rank rank, const Overwritten& overwritten,
                         OverwrittenFinder& finder) {
  const Member& member = *overwritten.at.member;
  Side& own = sides_.at({member.process, member.element});
  if (const OperationText* const kept = collective(member, overwritten.sequence)) {
    frontiers_[rank] = unit_from(overwritten.at.communicator, member, {kept});
    return;
  }
  if (finder.is_all_to_all(overwritten.at.communicator, overwritten.sequence)) {
    overwritten_all_to_alls_.emplace(overwritten.at.communicator, overwritten.sequence);
  }
  OperationText& lost = overwritten_.emplace_back();
  lost.sequence = overwritten.sequence;
  lost.call = static_cast<uint32_t>(run.processes[member.process].calls.size());
  lost.enter = lost.leave = oldest_.at(rank) - 1;
  lost.flags = format::kLaunched | format::kUntracked;
  lost.gpu = overwritten.gpu;
  own.collectives.insert(own.collectives.begin(), &lost);
  own.unfinished.insert(own.unfinished.begin(), &lost);
  frontiers_[rank] = unit_from(overwritten.at.communicator, member, {&lost});
}

const Unit* Standings::frontier(Rank rank) const {
  const auto found = frontiers_.find(rank);
  return found == frontiers_.end() ? nullptr : &found->second;
}

const Standings::Side& Standings::side(const Member& member) const {
  return sides_.at({member.process, member.element});
}

const std::vector<const OperationText*>& Standings::unfinished(const Member& member) const {
  return side(member).unfinished;
}

const OperationText* Standings::collective(const Member& member, uint64_t sequence) const {
  const auto& all = side(member).collectives;
  const auto found = std::lower_bound(
      all.begin(), all.end(), sequence,
      [](const OperationText* operation, uint64_t value) { return operation->sequence < value; });
  return found != all.end() && (*found)->sequence == sequence ? *found : nullptr;
}

std::optional<TimeNs> through_at(const Run& run, const Standings& standings, const Member& member,
                                 uint64_t sequence) {
  const CommunicatorText& text = text_of(run, member);
  const ProcessTrace& trace = run.processes[member.process];
  if (const OperationText* operation = standings.collective(member, sequence)) {
    return finished(trace, *operation) ? std::optional(operation->completed) : std::nullopt;
  }
  const bool in_past = sequence <= text.finished ||
                       (!text.recent.empty() && sequence <= sequence_reached(trace, text) &&
                        !standings.may_stand_earlier_than_kept(member.rank) &&
                        !standings.has_overwritten(run, member, sequence));
  return in_past ? std::optional<TimeNs>(0) : std::nullopt;
}

bool Standings::needs_all(const Run& run, const Unit& unit) const {
  const OperationText& first = unit.first();
  if (!first.collective) {
    return false;
  }
  const CallSchema* const called = schema_of(run.processes[unit.member->process], first.call);
  return called != nullptr ? direction_of(called->name) == Direction::kAllToAll
                           : overwritten_all_to_alls_.contains({unit.communicator, first.sequence});
}

}  // namespace traintrace
