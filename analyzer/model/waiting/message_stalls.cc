#include "analyzer/model/waiting/message_stalls.h"

#include <algorithm>
#include <set>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/stream_order.h"

namespace traintrace {
namespace {

// What a member issued as one: the oldest of its messages that are not known to be over.
using MessageUnit = std::vector<const OperationText*>;

class MessageStalls {
 public:
  MessageStalls(const Run& run, size_t index, HostWait wait)
      : run_(run), index_(index), communicator_(run.communicators[index]), wait_(wait) {}

  void add(std::vector<Stall>& stalls) {
    for (const Member& member : communicator_.members) {
      units_.push_back(unit_of(member));
    }
    std::set<size_t> seen;
    for (size_t i = 0; i < units_.size(); ++i) {
      if (units_[i].empty() || seen.contains(i)) {
        continue;
      }
      add_stall(joined(i, seen), stalls);
    }
    for (const Wait& wait : run_.waits.waits) {
      if (wait.communicator == index_ && wait.sequence != 0) {
        add_stopped(wait, stalls);
      }
    }
  }

 private:
  struct Joined {
    std::set<size_t> units;  // by member
    std::vector<StallPart> parts;
    bool whole = true;  // each message is there on both sides, and nothing before it
    // Other sides that are over, one for each peer, and whether one of them received.
    std::vector<StallPart> over;
    bool received = false;
  };

  MessageUnit unit_of(const Member& member) const {
    MessageUnit unit;
    for (const OperationText& operation : text_of(run_, member).recent) {
      const bool is_open = !operation.collective && operation.sequence != 0 &&
                           pending(run_, member, &operation) != nullptr;
      if (is_open &&
          (unit.empty() || (operation.group != 0 && operation.group == unit.front()->group))) {
        unit.push_back(&operation);
      }
    }
    return unit;
  }

  // One kernel does all of them: that of which most is known.
  const OperationText* told_of(const Member& member, const MessageUnit& unit) const {
    const auto told = std::find_if(unit.begin(), unit.end(), [&](const OperationText* operation) {
      return certainly_unfinished(gpu_state(run_.processes[member.process], *operation));
    });
    return told == unit.end() ? unit.front() : *told;
  }

  // The other side of it.
  const OperationText* counterpart(const Member& own, const OperationText& operation,
                                   const Member& peer) const {
    const std::vector<OperationText>& recent = text_of(run_, peer).recent;
    const auto found = std::find_if(recent.begin(), recent.end(), [&](const OperationText& other) {
      return !other.collective && other.receive != operation.receive &&
             other.peer == own.local_rank && other.sequence == operation.sequence;
    });
    return found == recent.end() ? nullptr : &*found;
  }

  // All whose oldest messages are to or from each other.
  Joined joined(size_t first, std::set<size_t>& seen) const {
    Joined all;
    std::vector<size_t> open = {first};
    seen.insert(first);
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      const Member& own = communicator_.members[at];
      all.units.insert(at);
      all.parts.push_back({&own, told_of(own, units_[at])});
      for (const OperationText* const operation : units_[at]) {
        const Member* const peer = member_at(communicator_, operation->peer);
        const OperationText* const other =
            peer == nullptr ? nullptr : counterpart(own, *operation, *peer);
        if (other == nullptr || has_ended(*peer)) {
          all.whole = false;
          continue;
        }
        if (finished(run_.processes[peer->process], *other)) {
          add_over(own, *peer, *other, all);
          continue;
        }
        const auto there = static_cast<size_t>(peer - communicator_.members.data());
        if (!contains_part(units_[there], other)) {
          all.whole = false;  // it stands in an earlier one
        } else if (seen.insert(there).second) {
          open.push_back(there);
        }
      }
    }
    return all;
  }

  // A message that its peer waits for, and that something else on its own stream holds up.
  void add_stopped(const Wait& wait, std::vector<Stall>& stalls) const {
    const bool is_message = wait.kind == WaitKind::kReceive || wait.kind == WaitKind::kSend;
    if (!is_message || wait.awaited.size() != 1 || !wait.awaited.front().stopped) {
      return;
    }
    const Member& waiter = *member_of(communicator_, wait.waiters.front().rank);
    const Member& awaited = *member_of(communicator_, wait.awaited.front().rank);
    const OperationText* const other = counterpart(waiter, wait.details, awaited);
    if (other != nullptr) {
      Joined both;
      both.parts = {{&waiter, &wait.details}, {&awaited, other}};
      add_stall(both, stalls);
    }
  }

  static bool contains_part(const MessageUnit& unit, const OperationText* operation) {
    return std::find(unit.begin(), unit.end(), operation) != unit.end();
  }

  bool has_ended(const Member& member) const {
    const RankState& state = *state_of(run_, member.rank);
    return exited_normally(run_, state) || has_left(run_, member) ||
           (died_waiting(run_, member) && !was_stuck_at_end(run_, state));
  }

  static void add_over(const Member& own, const Member& peer, const OperationText& other,
                       Joined& all) {
    if (&own == &peer) {
      return;
    }
    all.received = all.received || other.receive;
    if (std::none_of(all.over.begin(), all.over.end(),
                     [&](const StallPart& part) { return part.member == &peer; })) {
      all.over.push_back({&peer, &other});
    }
  }

  // All that it exchanges with others is over there, and they have had what it sent: its GPU began,
  // lacks nothing, and is known not to be through.
  bool is_left_alone(const Joined& all) const {
    return all.parts.size() == 1 && all.received &&
           certainly_unfinished(gpu_state(run_.processes[all.parts.front().member->process],
                                          *all.parts.front().operation));
  }

  // Else a side that is over says nothing of the other: it may have been buffered.
  void add_stall(const Joined& all, std::vector<Stall>& stalls) const {
    if (!all.whole || (all.parts.size() < 2 && !is_left_alone(all))) {
      return;
    }
    std::vector<StallPart> parts = all.parts;
    const bool alone = is_left_alone(all);
    if (alone) {
      parts.insert(parts.end(), all.over.begin(), all.over.end());
    }
    std::sort(parts.begin(), parts.end(), [](const StallPart& a, const StallPart& b) {
      return a.member->rank < b.member->rank;
    });
    if (auto stall = stall_of_parts(run_, index_, 0, parts, wait_)) {
      stall->known = stall->known || (alone && stall->kind == StallKind::kBehind);
      stalls.push_back(std::move(*stall));
    }
  }

  const Run& run_;
  const size_t index_;
  const Communicator& communicator_;
  const HostWait wait_;
  std::vector<MessageUnit> units_;  // by member
};

}  // namespace

void add_message_stalls(const Run& run, size_t communicator, HostWait wait,
                        std::vector<Stall>& stalls) {
  MessageStalls(run, communicator, wait).add(stalls);
}

}  // namespace traintrace
