#include "analyzer/judge/standing.h"

#include <algorithm>
#include <tuple>

#include "analyzer/model/idle_host.h"
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
  std::map<Rank, TimeNs> oldest;  // of all that is kept
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    for (const Member& member : run.communicators[i].members) {
      const ProcessTrace& trace = run.processes[member.process];
      Side& side = sides_[{member.process, member.element}];
      if (!text_of(run, member).recent.empty()) {
        const TimeNs first = text_of(run, member).recent.front().enter;
        const auto [at, is_new] = oldest.try_emplace(member.rank, first);
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
        continue;
      }
      const auto at = frontiers_.find(member.rank);
      if (at == frontiers_.end() || side.unfinished.front()->enter < at->second.first().enter) {
        frontiers_[member.rank] = unit_from(i, member, side.unfinished);
      }
    }
  }
  for (const auto& [rank, unit] : frontiers_) {
    const ProcessTrace& trace = run.processes[unit.member->process];
    if (trace.facts.contains("entries-overwritten") && unit.first().enter <= oldest.at(rank)) {
      cut_.insert(rank);
    }
  }
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

}  // namespace traintrace
