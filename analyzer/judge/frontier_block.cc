#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/judge/frontier_block.h"
#include "analyzer/model/activity.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/messages.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

class Blocker {
 public:
  explicit Blocker(const Run& run) : run_(run), blocked_(run) {}

  BlockedFrontiers block() {
    add_nodes();
    for (auto& [rank, node] : blocked_.nodes) {
      find_progress(node);
    }
    find_those_that_went_on();
    find_gone();
    find_disagreements();
    find_differing_messages();
    for (auto& [rank, node] : blocked_.nodes) {
      add_edges(node);
    }
    hand_on_batches();
    return std::move(blocked_);
  }

 private:
  using WaitKey = std::tuple<size_t, WaitKind, uint64_t, int>;

  void add_nodes() {
    for (const RankState& state : run_.ranks) {
      blocked_.nodes[state.rank] = {state.rank, &state, blocked_.standings.frontier(state.rank)};
    }
    for (const Communicator& communicator : run_.communicators) {
      for (const Rank rank : communicator.absent) {
        blocked_.nodes.try_emplace(rank, Node{rank});
      }
    }
  }

  static bool needs_all(const Run& run, const Unit& unit) {
    return unit.first().collective &&
           direction_of(call_name(run.processes[unit.member->process], unit.first().call)) ==
               Direction::kAllToAll;
  }

  bool is_diverged(size_t communicator) const {
    return std::any_of(run_.divergences.begin(), run_.divergences.end(),
                       [&](const Divergence& divergence) {
                         return divergence.communicator == communicator &&
                                divergence.kind != DivergenceKind::kHarmlessType &&
                                !is_of_messages(divergence.kind);
                       });
  }

  // When the member was through with that collective; none: it is not, as far as is known.
  std::optional<TimeNs> through_at(const Member& member, uint64_t sequence) const {
    const CommunicatorText& text = text_of(run_, member);
    const ProcessTrace& trace = run_.processes[member.process];
    if (const OperationText* operation = blocked_.standings.collective(member, sequence)) {
      return finished(trace, *operation) ? std::optional(operation->completed) : std::nullopt;
    }
    const bool in_past = sequence <= text.finished ||
                         (!text.recent.empty() && sequence <= sequence_reached(trace, text) &&
                          !blocked_.standings.may_stand_earlier_than_kept(member.rank));
    return in_past ? std::optional<TimeNs>(0) : std::nullopt;
  }

  // What a peer has completed, this rank's GPU has had all that it needed for.
  void find_progress(Node& node) {
    if (node.unit != nullptr && node.unit->first().collective && node.unit->first().sequence == 0) {
      node.unit = nullptr;  // which it is, nobody knows
    }
    if (node.unit == nullptr || !needs_all(run_, *node.unit) ||
        is_diverged(node.unit->communicator)) {
      return;
    }
    const uint64_t sequence = node.unit->first().sequence;
    for (const Member& other : run_.communicators[node.unit->communicator].members) {
      const auto through = other.rank == node.rank ? std::nullopt : through_at(other, sequence);
      if (!through) {
        continue;
      }
      const TimeNs since = std::max(*through, node.unit->first().enter);
      if (elapsed(since, node.state->last_seen) < run_.hang_after) {
        node.open = true;
      } else {
        insert(node.through, other.rank);
      }
    }
    node.stalled = !node.open && !node.through.empty();
    node.unit = node.open ? nullptr : node.unit;
  }

  // Its own dump ends before what others tell of it.
  void find_those_that_went_on() {
    for (const Rank rank : that_went_on(run_)) {
      Node& node = blocked_.nodes.at(rank);
      node.open = true;
      node.stalled = false;
      node.through.clear();
      node.unit = nullptr;
    }
  }

  // It wrote its dump long before all others theirs, and before any time limit of its own had
  // passed: as a process does that ends.
  bool wrote_early(const Node& node) const {
    constexpr TimeNs kApart = 60'000'000'000;  // after the first limit all write theirs
    const ProcessTrace& trace = trace_of(run_, *node.state);
    const auto made = trace.facts.find("dump-time");
    return made != trace.facts.end() && made->second != "assumed" &&
           (trace.first_limit == 0 ||
            elapsed(node.state->last_seen, trace.first_limit) > kApart / 2) &&
           std::all_of(run_.ranks.begin(), run_.ranks.end(), [&](const RankState& other) {
             return other.rank == node.rank ||
                    elapsed(node.state->last_seen, other.last_seen) > kApart;
           });
  }

  void find_gone() {
    for (auto& [rank, node] : blocked_.nodes) {
      if (run_.ranks.size() > 1 && node.state != nullptr && !node.open && wrote_early(node)) {
        node.gone = true;
        node.stalled = false;
      }
    }
  }

  struct Call {
    std::string function;
    uint64_t count = 0;
    int type = -1;
    auto operator<=>(const Call&) const = default;  // NOLINT(modernize-use-nullptr)
  };

  Call call_of(const Member& member, const OperationText& operation) const {
    return {call_name(run_.processes[member.process], operation.call), operation.count,
            operation.data_type};
  }

  // Collectives at frontiers for which not all members gave the same function, size and type.
  void find_disagreements() {
    std::set<std::pair<size_t, uint64_t>> seen;
    for (const auto& [rank, node] : blocked_.nodes) {
      if (node.unit == nullptr || node.stalled || !node.unit->first().collective ||
          !seen.emplace(node.unit->communicator, node.unit->first().sequence).second) {
        continue;
      }
      std::map<Call, Ranks> sides;
      for (const Member& member : run_.communicators[node.unit->communicator].members) {
        const OperationText* const call =
            blocked_.standings.collective(member, node.unit->first().sequence);
        if (call != nullptr) {
          insert(sides[call_of(member, *call)], member.rank);
        }
      }
      sides = comparable(sides);
      if (sides.size() > 1) {
        add_disagreement(node.unit->communicator, node.unit->first().sequence, sides);
      }
    }
  }

  SideCall side_call(size_t communicator, uint64_t sequence, Rank rank) const {
    const Member& member = *member_of(run_.communicators[communicator], rank);
    const OperationText& operation = *blocked_.standings.collective(member, sequence);
    SideCall call{rank, member.process, {}};
    call.item.function = call_name(run_.processes[member.process], operation.call);
    call.item.operation = operation;
    return call;
  }

  // Who deviates: all but the greatest side; where two are greatest, nobody can be said to.
  void add_disagreement(size_t communicator, uint64_t sequence,
                        const std::map<Call, Ranks>& sides) {
    Divergence divergence;
    divergence.communicator = communicator;
    divergence.sequence = divergence.sequence_last = divergence.met = sequence;
    divergence.exact = true;
    const auto most = std::max_element(
        sides.begin(), sides.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const auto least =
        std::find_if(sides.begin(), sides.end(), [&](const auto& side) { return &side != &*most; });
    divergence.others = most->second;
    for (const auto& [call, ranks] : sides) {
      if (ranks != most->second) {
        divergence.tie = divergence.tie || ranks.size() == most->second.size();
        divergence.parts.push_back(ranks);
        std::for_each(ranks.begin(), ranks.end(),
                      [&](Rank rank) { insert(divergence.deviants, rank); });
      }
    }
    divergence.kind = least->first.function != most->first.function ? DivergenceKind::kFunction
                      : least->first.count != most->first.count     ? DivergenceKind::kCount
                                                                    : DivergenceKind::kType;
    divergence.own = side_call(communicator, sequence, least->second.front());
    divergence.expected = side_call(communicator, sequence, most->second.front());
    Disagreement& found = blocked_.disagreements.emplace_back();
    found.deviants = divergence.deviants;
    if (divergence.tie) {
      for (const Rank rank : divergence.others) {
        insert(found.deviants, rank);
      }
    }
    found.index = index_of(divergence);
    for (const Rank rank : found.deviants) {
      blocked_.nodes.at(rank).deviant = true;
    }
  }

  // In Run::divergences, of which one about that communicator knows more: what came before.
  size_t index_of(const Divergence& divergence) {
    for (size_t i = 0; i < run_.divergences.size(); ++i) {
      const Divergence& other = run_.divergences[i];
      if (other.communicator == divergence.communicator && !is_of_messages(other.kind) &&
          other.kind != DivergenceKind::kHarmlessType && other.sequence <= divergence.sequence) {
        return i;
      }
    }
    blocked_.divergences.push_back(divergence);
    return run_.divergences.size() + blocked_.divergences.size() - 1;
  }

  static bool contains_part(const Unit& unit, const OperationText& operation) {
    return std::find(unit.parts.begin(), unit.parts.end(), &operation) != unit.parts.end();
  }

  // Its oldest work is one side of such a message, the other side of which was issued with another
  // size: that it is behind something else there would say that the message has not begun.
  bool stands_in(const Divergence& divergence, const SideCall& own, const SideCall& other) const {
    const Unit* const unit = blocked_.nodes.at(own.rank).unit;
    if (unit == nullptr || unit->communicator != divergence.communicator) {
      return false;
    }
    const Member& peer = *member_of(run_.communicators[divergence.communicator], other.rank);
    const Unit* const theirs = blocked_.nodes.at(other.rank).unit;
    const auto differs = [&](const OperationText* part, const OperationText& met) {
      return !met.collective && met.receive != part->receive &&
             met.peer == unit->member->local_rank && met.sequence == part->sequence &&
             size_key(met) != size_key(*part) &&
             (finished(run_.processes[peer.process], met) ||
              (theirs != nullptr && contains_part(*theirs, met)));
    };
    const auto& met = text_of(run_, peer).recent;
    return std::any_of(unit->parts.begin(), unit->parts.end(), [&](const OperationText* part) {
      return !part->collective && part->peer == peer.local_rank &&
             part->sequence >= divergence.sequence &&
             std::any_of(met.begin(), met.end(),
                         [&](const OperationText& call) { return differs(part, call); });
    });
  }

  // Neither side of such a message waits for what the other one does.
  void find_differing_messages() {
    for (size_t i = 0; i < run_.divergences.size(); ++i) {
      const Divergence& divergence = run_.divergences[i];
      if (!is_of_messages(divergence.kind) || is_harmless(divergence.kind)) {
        continue;
      }
      Disagreement found;
      found.index = i;
      for (const Message& message : divergence.messages) {
        if (stands_in(divergence, message.send, message.receive)) {
          insert(found.deviants, message.send.rank);
        }
        if (stands_in(divergence, message.receive, message.send)) {
          insert(found.deviants, message.receive.rank);
        }
      }
      for (const Rank rank : found.deviants) {
        blocked_.nodes.at(rank).deviant = true;
      }
      if (!found.deviants.empty()) {
        blocked_.disagreements.push_back(std::move(found));
      }
    }
  }

  // Without sizes where one of them is not known.
  static std::map<Call, Ranks> comparable(const std::map<Call, Ranks>& sides) {
    if (std::all_of(sides.begin(), sides.end(),
                    [](const auto& side) { return side.first.type >= 0; })) {
      return sides;
    }
    std::map<Call, Ranks> joined;
    for (const auto& [call, ranks] : sides) {
      for (const Rank rank : ranks) {
        insert(joined[{call.function, 0, -1}], rank);
      }
    }
    return joined;
  }

  // The rank has work that it issued before that operation and that is not complete.
  bool is_held_up_before(const Node& node, const OperationText& operation) const {
    return node.unit != nullptr && node.unit->first().enter < operation.enter &&
           !contains_part(*node.unit, operation);
  }

  // What keeps it from going on is not known to be its own.
  static bool may_wait(const Node& node) {
    return node.unit != nullptr && !node.stalled && !node.deviant && !node.gone;
  }

  void add_edges(Node& node) {
    if (!may_wait(node)) {
      return;
    }
    node.vague = blocked_.standings.may_stand_earlier_than_kept(node.rank);
    if (node.unit->first().collective) {
      add_collective_edges(node);
      return;
    }
    for (const OperationText* part : node.unit->parts) {
      node.vague = node.vague || part->peer < 0;
      add_message_edge(node, *part);
    }
  }

  // It has issued that, and whether it is complete is not kept.
  bool has_overwritten(const Member& member, uint64_t sequence) const {
    const CommunicatorText& text = text_of(run_, member);
    return !text.recent.empty() &&
           sequence <= sequence_reached(run_.processes[member.process], text);
  }

  void add_collective_edges(Node& node) {
    const Communicator& communicator = run_.communicators[node.unit->communicator];
    const uint64_t sequence = node.unit->first().sequence;
    for (const Member& other : communicator.members) {
      const Node& peer = blocked_.nodes.at(other.rank);
      if (other.rank == node.rank) {
        continue;
      }
      if (through_at(other, sequence)) {  // what its root sent, say
        node.answered = true;
        continue;
      }
      const OperationText* const call = blocked_.standings.collective(other, sequence);
      if (call == nullptr && has_overwritten(other, sequence)) {
        node.vague = true;
      } else if (call == nullptr) {
        add_edge(node, node.unit->first(), peer, false);
      } else if (peer.stalled || peer.deviant || peer.gone || is_held_up_before(peer, *call)) {
        add_edge(node, node.unit->first(), peer, true);
      }
    }
    for (const Rank rank : communicator.absent) {
      add_edge(node, node.unit->first(), blocked_.nodes.at(rank), false);
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
    if (other->rank == node.rank) {
      return;
    }
    if (is_over(*other, node.unit->member->local_rank, part)) {
      node.answered = true;
      return;
    }
    const OperationText* const counterpart = counterpart_of(node, part, true);
    if (counterpart == nullptr) {
      add_edge(node, part, peer, counterpart_of(node, part, false) != nullptr);
    } else if (peer.stalled || peer.gone || is_held_up_before(peer, *counterpart)) {
      add_edge(node, part, peer, true);
    }
  }

  // Messages that are issued in a batch go over the communicator of the group, single ones over one
  // of the pair: they never meet.  Whether it is in a batch is not known of all.
  static bool may_meet(const OperationText& a, const OperationText& b) {
    return (a.group != 0) == (b.group != 0) || ((a.flags | b.flags) & format::kUntracked) != 0;
  }

  // The peer's unfinished side of a message; null: there is none.
  const OperationText* counterpart_of(const Node& node, const OperationText& part,
                                      bool that_meets) const {
    const Communicator& communicator = run_.communicators[node.unit->communicator];
    const Member* const other = member_at(communicator, part.peer);
    if (other == nullptr) {
      return nullptr;
    }
    const auto& theirs = blocked_.standings.unfinished(*other);
    const auto found =
        std::find_if(theirs.begin(), theirs.end(), [&](const OperationText* operation) {
          return !operation->collective && operation->receive != part.receive &&
                 (operation->peer == node.unit->member->local_rank || operation->peer < 0) &&
                 (!that_meets || may_meet(*operation, part));
        });
    return found == theirs.end() ? nullptr : *found;
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
              waiting.contains(peer->rank) && counterpart_of(node, *part, true) != nullptr) {
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
    node.vague = node.vague || peer.open;
    const Unit& unit = *node.unit;
    const WaitKind kind = operation.collective ? WaitKind::kCollective
                          : operation.receive  ? WaitKind::kReceive
                                               : WaitKind::kSend;
    const int apart = operation.collective ? -1 : node.rank.value * 2 + (entered ? 1 : 0);
    const uint64_t number = operation.collective ? operation.sequence : operation.index;
    const auto [at, is_new] =
        waits_.try_emplace({unit.communicator, kind, number, apart}, blocked_.waits.size());
    if (is_new) {
      Wait& wait = blocked_.waits.emplace_back();
      wait.kind = kind;
      wait.communicator = unit.communicator;
      wait.sequence = operation.sequence;
      wait.operation = call_name(run_.processes[unit.member->process], operation.call);
      wait.details = operation;
    }
    Wait& wait = blocked_.waits[at->second];
    if (wait.waiters.empty() || wait.waiters.back().rank != node.rank) {
      Waiter waiter = waiter_of(run_, *unit.member, operation.enter, operation.stack);
      waiter.unfinished = true;
      wait.waiters.push_back(waiter);
    }
    if (std::none_of(wait.awaited.begin(), wait.awaited.end(),
                     [&](const Awaited& other) { return other.rank == peer.rank; })) {
      Awaited& awaited = wait.awaited.emplace_back();
      awaited.rank = peer.rank;
      awaited.entered = awaited.held_up = awaited.by_order = entered;
      awaited.moved = last_move_of(unit.communicator, peer.rank);
      std::sort(wait.awaited.begin(), wait.awaited.end(),
                [](const Awaited& a, const Awaited& b) { return a.rank < b.rank; });
    }
  }

  TimeNs last_move_of(size_t communicator, Rank rank) const {
    const Member* const member = member_of(run_.communicators[communicator], rank);
    return member == nullptr ? 0 : text_of(run_, *member).last;
  }

  const Run& run_;
  BlockedFrontiers blocked_;
  std::map<WaitKey, size_t> waits_;
};

}  // namespace

BlockedFrontiers block_frontiers(const Run& run) {
  return Blocker(run).block();
}

}  // namespace traintrace
