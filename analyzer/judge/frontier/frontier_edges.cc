#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/judge/frontier/frontier_parts.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

class EdgeFinder {
 public:
  EdgeFinder(const Run& run, BlockedFrontiers& blocked) : run_(run), blocked_(blocked) {}

  void find() {
    find_unreached();
    for (auto& [rank, node] : blocked_.nodes) {
      add_edges(node);
    }
    hand_on_batches();
  }

 private:
  using WaitKey = std::tuple<size_t, WaitKind, uint64_t, int>;

  // The rank has work that it issued before that operation and that is not complete.
  bool is_held_up_before(const Node& node, const OperationText& operation) const {
    return node.unit != nullptr && node.unit->first().enter < operation.enter &&
           !node.unit->contains(operation);
  }

  // What keeps it from going on is not known to be its own.
  static bool may_wait(const Node& node) {
    return node.unit != nullptr && !node.stalled && !node.deviant && !node.gone;
  }

  // Where a member has no dump, all others seem to wait for it.  One whose stream has not come to
  // the collective that others' are in is held up by its own GPU.
  void find_unreached() {
    for (auto& [rank, node] : blocked_.nodes) {
      if (!may_wait(node) || !node.unit->first().collective ||
          blocked_.standings.may_stand_earlier(rank) || blocked_.standings.has_wrapped(rank) ||
          run_.communicators[node.unit->communicator].absent.empty()) {
        continue;
      }
      node.unreached =
          stands_with(node, GpuState::kEnqueued) && reached_with(run_, blocked_, node).size() > 1;
    }
  }

  bool stands_with(const Node& node, GpuState state) const {
    return gpu_state(trace_of(run_, *node.state), node.unit->first()) == state;
  }

  void add_edges(Node& node) {
    if (!may_wait(node) || node.unreached) {
      return;
    }
    node.vague = blocked_.standings.may_stand_earlier_than_kept(node.rank);
    if (node.vague) {
      add_edges_behind(node);
    }
    if (node.unit->first().collective) {
      add_collective_edges(node);
      return;
    }
    // Messages issued together are complete together: that a peer is through with one of them says
    // nothing of the others.
    bool answered = true;
    for (const OperationText* part : node.unit->parts) {
      node.vague = node.vague || part->peer < 0;
      answered = is_answered(node, *part) && answered;
      add_message_edge(node, *part);
    }
    node.answered = answered;
  }

  // Its peer is through with the other side.
  bool is_answered(const Node& node, const OperationText& part) const {
    const Member* const peer = member_at(run_.communicators[node.unit->communicator], part.peer);
    return peer != nullptr && peer->rank != node.rank &&
           is_over(*peer, node.unit->member->local_rank, part);
  }

  // What it waits for first is not kept.  All that it issued later it needs as well: who has not
  // come to that, and has nothing unfinished itself, waits for nobody.
  void add_edges_behind(Node& node) {
    for (size_t i = 0; i < run_.communicators.size(); ++i) {
      const Member* const member = member_of(run_.communicators[i], node.rank);
      if (member == nullptr) {
        continue;
      }
      for (const OperationText* const operation : blocked_.standings.unfinished(*member)) {
        const Unit unit{i, member, {operation}};
        if (blocked_.standings.needs_all(run_, unit)) {
          add_edges_to_idle(node, unit);
        }
      }
    }
  }

  void add_edges_to_idle(Node& node, const Unit& unit) {
    const Communicator& communicator = run_.communicators[unit.communicator];
    for (const Member& other : communicator.members) {
      const Node& peer = blocked_.nodes.at(other.rank);
      const bool idle = peer.unit == nullptr && !peer.open && !peer.gone;
      const CommunicatorText& text = text_of(run_, other);
      if (idle && sequence_reached(run_.processes[other.process], text) < unit.first().sequence &&
          seen_behind_.insert({node.rank, other.rank}).second) {
        add_edge(node, unit, unit.first(), peer, false);
      }
    }
    for (const Rank rank : communicator.absent) {
      if (seen_behind_.insert({node.rank, rank}).second) {
        add_edge(node, unit, unit.first(), blocked_.nodes.at(rank), false);
        node.by_later = true;
      }
    }
  }

  // It has issued that, which is not complete nor kept, and stands elsewhere.
  bool is_held_up_before_kept(const Node& peer, const Member& member, uint64_t sequence) const {
    return blocked_.standings.has_overwritten(run_, member, sequence) &&
           !blocked_.standings.may_stand_earlier_than_kept(member.rank) && peer.unit != nullptr;
  }

  // It has issued that, and whether it is complete is not kept.
  bool may_have_completed(const Member& member, uint64_t sequence) const {
    return sequence <= sequence_reached(run_.processes[member.process], text_of(run_, member));
  }

  // Who is not in a collective that others stand in, and who is through with it: found once for all
  // who stand in it.
  struct Absentees {
    std::vector<std::pair<const Node*, bool>> awaited;  // and whether it has entered it
    Ranks through;
    bool vague = false;    // whether a member is through is not kept, or where it is not known
    bool in_wait = false;  // those awaited have been added to it
  };

  Absentees& absentees_of(size_t index, uint64_t sequence) {
    const auto [at, is_new] = absentees_.try_emplace({index, sequence});
    if (is_new) {
      for (const Member& other : run_.communicators[index].members) {
        add_absentee(other, index, sequence, at->second);
      }
      for (const Rank rank : run_.communicators[index].absent) {
        at->second.awaited.emplace_back(&blocked_.nodes.at(rank), false);
      }
      for (const auto& [peer, entered] : at->second.awaited) {
        at->second.vague = at->second.vague || peer->open;
      }
    }
    return at->second;
  }

  // What it is through with there is another call than what the others are in.
  bool called_otherwise(size_t index, uint64_t sequence, Rank rank) const {
    return std::any_of(blocked_.disagreements.begin(), blocked_.disagreements.end(),
                       [&](const Disagreement& one) {
                         return one.communicator == index && one.sequence == sequence &&
                                contains(one.deviants, rank);
                       });
  }

  void add_absentee(const Member& other, size_t index, uint64_t sequence, Absentees& found) const {
    if (called_otherwise(index, sequence, other.rank)) {
      found.awaited.emplace_back(&blocked_.nodes.at(other.rank), true);
      return;
    }
    if (through_at(run_, blocked_.standings, other, sequence)) {  // what its root sent, say
      insert(found.through, other.rank);
      return;
    }
    const Node& peer = blocked_.nodes.at(other.rank);
    const OperationText* const call = blocked_.standings.collective(other, sequence);
    const bool held_up = call == nullptr ? is_held_up_before_kept(peer, other, sequence)
                                         : peer.stalled || peer.deviant || peer.gone ||
                                               (peer.unreached && peer.unit->contains(*call)) ||
                                               is_held_up_before(peer, *call);
    if (held_up) {
      found.awaited.emplace_back(&peer, true);
    } else if (call == nullptr && may_have_completed(other, sequence)) {
      found.vague = true;
    } else if (call == nullptr) {
      found.awaited.emplace_back(&peer, false);
    }
  }

  void add_collective_edges(Node& node) {
    const OperationText& operation = node.unit->first();
    Absentees& absentees = absentees_of(node.unit->communicator, operation.sequence);
    node.through = absentees.through;
    std::erase(node.through, node.rank);
    node.answered = !node.through.empty();
    node.vague = node.vague || absentees.vague;
    if (absentees.awaited.empty()) {
      return;
    }
    Wait& wait = wait_of(node, *node.unit, operation,
                         {node.unit->communicator, WaitKind::kCollective, operation.sequence, -1});
    if (!std::exchange(absentees.in_wait, true)) {
      for (const auto& [peer, entered] : absentees.awaited) {
        add_awaited(wait, *peer, entered);
      }
    }
  }

  void add_message_edge(Node& node, const OperationText& part) {
    const Communicator& communicator = run_.communicators[node.unit->communicator];
    const Member* const other = member_at(communicator, part.peer);
    if (other == nullptr) {
      if (const auto rank = declared(*node.unit->member, part.peer)) {
        add_edge(node, part, blocked_.nodes.at(*rank), false);
      }
      return;
    }
    const Node& peer = blocked_.nodes.at(other->rank);
    if (other->rank == node.rank || is_answered(node, part)) {
      return;
    }
    const OperationText* const counterpart = counterpart_of(node, part, true);
    if (part.sequence == 0 && may_be_cut(peer, *node.unit) &&
        (counterpart == nullptr || !peer.unit->contains(*counterpart))) {
      node.vague = true;
      return;
    }
    if (counterpart == nullptr) {
      add_edge(node, part, peer, counterpart_of(node, part, false) != nullptr);
    } else if (peer.stalled || peer.gone || is_held_up_before(peer, *counterpart)) {
      add_edge(node, part, peer, true);
    }
  }

  // The peer stands in messages there that were issued as one, the first of which may not be kept.
  bool may_be_cut(const Node& peer, const Unit& unit) const {
    return peer.unit != nullptr && peer.unit->communicator == unit.communicator &&
           peer.unit->first().group != 0 && blocked_.standings.has_wrapped(peer.rank);
  }

  // Messages that are issued in a batch go over the communicator of the group, single ones over one
  // of the pair: they never meet.  Whether it is in a batch is not known of all.
  static bool may_meet(const OperationText& a, const OperationText& b) {
    return (a.group != 0) == (b.group != 0) || ((a.flags | b.flags) & format::kUntracked) != 0;
  }

  // The peer's unfinished side of a message: that of the same number, where messages are numbered,
  // else the oldest.  Null: there is none.
  const OperationText* counterpart_of(const Node& node, const OperationText& part,
                                      bool that_meets) const {
    const Communicator& communicator = run_.communicators[node.unit->communicator];
    const Member* const other = member_at(communicator, part.peer);
    if (other == nullptr) {
      return nullptr;
    }
    const auto& theirs = blocked_.standings.unfinished(*other);
    const OperationText* oldest = nullptr;
    for (const OperationText* const operation : theirs) {
      if (operation->collective || operation->receive == part.receive ||
          (operation->peer != node.unit->member->local_rank && operation->peer >= 0) ||
          (that_meets && !may_meet(*operation, part))) {
        continue;
      }
      if (part.sequence != 0 && operation->sequence == part.sequence) {
        return operation;
      }
      oldest = oldest == nullptr ? operation : oldest;
    }
    return oldest;
  }

  // Messages issued together are complete together: who exchanges one with a rank whose other ones
  // do not get done waits for it as well.
  void hand_on_batches() {
    std::set<Rank> waiting;
    for (const Wait& wait : blocked_.waits) {
      for (const Waiter& waiter : wait.waiters) {
        waiting.insert(waiter.rank);
      }
    }
    for (const auto& [rank, node] : blocked_.nodes) {
      if (node.deviant && node.unit != nullptr && !node.unit->first().collective) {
        waiting.insert(rank);
      }
    }
    for (size_t before = 0; before != waiting.size();) {
      before = waiting.size();
      for (auto& [rank, node] : blocked_.nodes) {
        if (!may_wait(node) || node.unit->first().collective || waiting.contains(rank)) {
          continue;
        }
        for (const OperationText* part : node.unit->parts) {
          const Member* const other =
              member_at(run_.communicators[node.unit->communicator], part->peer);
          const Node* const peer = other == nullptr ? nullptr : &blocked_.nodes.at(other->rank);
          if (peer != nullptr && peer->unit != nullptr && peer->unit->parts.size() > 1 &&
              waiting.contains(peer->rank) && !is_answered(node, *part) &&
              counterpart_of(node, *part, true) != nullptr) {
            add_edge(node, *part, *peer, true);
            waiting.insert(rank);
          }
        }
      }
    }
  }

  // The peer is through with its side, where messages are numbered.
  bool is_over(const Member& peer, int own, const OperationText& part) const {
    const auto& all = text_of(run_, peer).recent;
    return part.sequence != 0 &&
           std::any_of(all.begin(), all.end(), [&](const OperationText& other) {
             return !other.collective && other.receive != part.receive && other.peer == own &&
                    other.sequence == part.sequence &&
                    finished(run_.processes[peer.process], other);
           });
  }

  // Whom the source says to be the member with that number.
  std::optional<Rank> declared(const Member& member, int local_rank) const {
    const std::vector<int> ranks = declared_members(text_of(run_, member));
    const bool known = local_rank >= 0 && static_cast<size_t>(local_rank) < ranks.size() &&
                       blocked_.nodes.contains({ranks[static_cast<size_t>(local_rank)]});
    return known ? std::optional(Rank{ranks[static_cast<size_t>(local_rank)]}) : std::nullopt;
  }

  void add_edge(Node& node, const OperationText& operation, const Node& peer, bool entered) {
    add_edge(node, *node.unit, operation, peer, entered);
  }

  void add_edge(Node& node, const Unit& unit, const OperationText& operation, const Node& peer,
                bool entered) {
    node.vague = node.vague || peer.open;
    const WaitKind kind = operation.collective ? WaitKind::kCollective
                          : operation.receive  ? WaitKind::kReceive
                                               : WaitKind::kSend;
    const int apart = operation.collective ? -1 : node.rank.value * 2 + (entered ? 1 : 0);
    const uint64_t number = operation.collective ? operation.sequence : operation.index;
    add_awaited(wait_of(node, unit, operation, {unit.communicator, kind, number, apart}), peer,
                entered);
  }

  // The wait of that key, in which the rank of `node` waits.
  Wait& wait_of(const Node& node, const Unit& unit, const OperationText& operation,
                const WaitKey& key) {
    const auto [at, is_new] = waits_.try_emplace(key, blocked_.waits.size());
    if (is_new) {
      Wait& wait = blocked_.waits.emplace_back();
      wait.kind = std::get<WaitKind>(key);
      wait.communicator = unit.communicator;
      wait.sequence = operation.sequence;
      const auto* const called = schema_of(run_.processes[unit.member->process], operation.call);
      wait.operation = called == nullptr ? "" : called->name;  // overwritten: not known
      wait.details = operation;
    }
    Wait& wait = blocked_.waits[at->second];
    if (wait.waiters.empty() || wait.waiters.back().rank != node.rank) {
      Waiter waiter = waiter_of(run_, *unit.member, operation.enter, operation.stack);
      waiter.unfinished = true;
      wait.waiters.push_back(waiter);
    }
    return wait;
  }

  void add_awaited(Wait& wait, const Node& peer, bool entered) const {
    const auto at = std::lower_bound(wait.awaited.begin(), wait.awaited.end(), peer.rank,
                                     [](const Awaited& one, Rank rank) { return one.rank < rank; });
    if (at != wait.awaited.end() && at->rank == peer.rank) {
      return;
    }
    Awaited& awaited = *wait.awaited.emplace(at);
    awaited.rank = peer.rank;
    awaited.entered = awaited.held_up = awaited.by_order = entered;
    awaited.moved = last_move_of(wait.communicator, peer.rank);
  }

  TimeNs last_move_of(size_t communicator, Rank rank) const {
    const Member* const member = member_of(run_.communicators[communicator], rank);
    return member == nullptr ? 0 : text_of(run_, *member).last;
  }

  const Run& run_;
  BlockedFrontiers& blocked_;
  std::map<WaitKey, size_t> waits_;
  std::map<std::pair<size_t, uint64_t>, Absentees> absentees_;  // by communicator and sequence
  std::set<std::pair<Rank, Rank>> seen_behind_;
};

}  // namespace

Ranks reached_with(const Run& run, const BlockedFrontiers& blocked, const Node& node) {
  Ranks reached;
  for (const Member& other : run.communicators[node.unit->communicator].members) {
    const Node& peer = blocked.nodes.at(other.rank);
    const bool together = peer.unit != nullptr && peer.unit->first().collective &&
                          peer.unit->communicator == node.unit->communicator &&
                          peer.unit->first().sequence == node.unit->first().sequence;
    if (together &&
        gpu_state(trace_of(run, *peer.state), peer.unit->first()) == GpuState::kReached) {
      insert(reached, other.rank);
    }
  }
  return reached;
}

void find_edges(const Run& run, BlockedFrontiers& blocked) {
  EdgeFinder(run, blocked).find();
}

}  // namespace traintrace
