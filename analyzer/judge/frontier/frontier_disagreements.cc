#include <algorithm>
#include <map>
#include <set>

#include "analyzer/judge/frontier/frontier_parts.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/divergence/channels.h"
#include "analyzer/model/divergence/message_blame.h"
#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

class DisagreementFinder {
 public:
  DisagreementFinder(const Run& run, BlockedFrontiers& blocked) : run_(run), blocked_(blocked) {}

  void find() {
    find_disagreements();
    find_differing_messages();
    find_differing_unnumbered();
  }

 private:
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
        // What is overwritten is not known to be another call.
        if (call != nullptr && schema_of(run_.processes[member.process], call->call) != nullptr) {
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
    divergence.own = side_call(communicator, sequence, least->second.front());
    divergence.expected = side_call(communicator, sequence, most->second.front());
    divergence.kind = !is_same_function(divergence.own.item, divergence.expected.item)
                          ? DivergenceKind::kFunction
                      : least->first.count != most->first.count ? DivergenceKind::kCount
                                                                : DivergenceKind::kType;
    Disagreement& found = blocked_.disagreements.emplace_back();
    found.deviants = divergence.deviants;
    found.communicator = communicator;
    found.sequence = sequence;
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
              (theirs != nullptr && theirs->contains(met)));
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

  // Of messages that a ring has no numbers for: what two ranks stand in meets, the first of one
  // side with the first of the other.  Whoever stood there would be through with a message that its
  // peer is through with.
  void find_differing_unnumbered() {
    std::vector<Divergence> faults;
    for (const auto& [rank, node] : blocked_.nodes) {
      if (!is_of_unnumbered(node)) {
        continue;
      }
      for (const OperationText* part : node.unit->parts) {
        if (!part->receive) {
          add_differing(node, *part, faults);
        }
      }
    }
    blame_messages(run_, faults);
    for (Divergence& fault : faults) {
      Disagreement& found = blocked_.disagreements.emplace_back();
      for (const Message& message : fault.messages) {
        for (const Rank rank : {message.send.rank, message.receive.rank}) {
          insert(found.deviants, rank);
          blocked_.nodes.at(rank).deviant = true;
        }
      }
      blocked_.divergences.push_back(std::move(fault));
      found.index = run_.divergences.size() + blocked_.divergences.size() - 1;
    }
  }

  // The first messages of a batch may be overwritten.
  bool is_of_unnumbered(const Node& node) const {
    return node.unit != nullptr && !node.stalled && !node.gone && !node.deviant &&
           !node.unit->first().collective && node.unit->first().sequence == 0 &&
           (node.unit->first().group == 0 || !blocked_.standings.has_wrapped(node.rank));
  }

  // The first of the unit that goes that way; null: there is none, or which is first is not known.
  static const OperationText* first_with(const Unit& unit, bool receive, int peer) {
    const auto first =
        std::find_if(unit.parts.begin(), unit.parts.end(), [&](const OperationText* part) {
          return part->receive == receive && (part->peer == peer || part->peer < 0);
        });
    const bool known = first != unit.parts.end() && (*first)->peer == peer &&
                       ((*first)->flags & format::kUntracked) == 0 && (*first)->data_type >= 0;
    return known ? *first : nullptr;
  }

  void add_differing(const Node& node, const OperationText& send,
                     std::vector<Divergence>& faults) const {
    const Unit& unit = *node.unit;
    const Member* const other = member_at(run_.communicators[unit.communicator], send.peer);
    const Node* const peer =
        other == nullptr || other->rank == node.rank ? nullptr : &blocked_.nodes.at(other->rank);
    if (peer == nullptr || !is_of_unnumbered(*peer) ||
        peer->unit->communicator != unit.communicator ||
        (peer->unit->first().group == 0) != (unit.first().group == 0) ||
        first_with(unit, false, send.peer) != &send) {
      return;
    }
    const OperationText* const receive = first_with(*peer->unit, true, unit.member->local_rank);
    if (receive != nullptr && size_key(*receive) != size_key(send)) {
      faults.push_back(difference_of(unit.communicator,
                                     traintrace::call_of(run_, *unit.member, send),
                                     traintrace::call_of(run_, *other, *receive)));
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

  const Run& run_;
  BlockedFrontiers& blocked_;
};

}  // namespace

void find_disagreements(const Run& run, BlockedFrontiers& blocked) {
  DisagreementFinder(run, blocked).find();
}

}  // namespace traintrace
