#include "analyzer/model/order_waits.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyzer/model/activity.h"
#include "analyzer/model/device_stall.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

// The oldest operation of a rank that is not finished.
struct Oldest {
  size_t communicator = 0;  // in Run::communicators
  const Member* member = nullptr;
  const OperationText* operation = nullptr;
};
using ByRank = std::map<Rank, Oldest>;

ByRank oldest_of_all(const Run& run) {
  ByRank found;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    for (const Member& member : run.communicators[i].members) {
      const ProcessTrace& trace = run.processes[member.process];
      for (const OperationText& operation : text_of(run, member).recent) {
        if (operation.stream != 0 || !certainly_unfinished(gpu_state(trace, operation))) {
          continue;
        }
        const auto [at, is_new] = found.try_emplace(member.rank, Oldest{i, &member, &operation});
        if (!is_new && operation.enter < at->second.operation->enter) {
          at->second = {i, &member, &operation};
        }
        break;
      }
    }
  }
  return found;
}

bool is_counterpart(const Oldest& own, const Oldest& other) {
  const OperationText& a = *own.operation;
  const OperationText& b = *other.operation;
  return own.communicator == other.communicator && !b.collective && a.receive != b.receive &&
         b.peer == own.member->local_rank;
}

class OrderSearch {
 public:
  OrderSearch(const Run& run, std::vector<Wait>& waits)
      : run_(run), waits_(waits), oldest_(oldest_of_all(run)) {
    for (const Wait& wait : waits) {
      for (const Waiter& waiter : wait.waiters) {
        held_up_.insert(waiter.rank);
      }
      for (const Awaited& awaited : wait.awaited) {
        held_up_.insert(awaited.rank);
      }
    }
    for (const auto& [rank, oldest] : oldest_) {
      if (!held_up_.contains(rank) && device_stall(run, rank)) {
        held_up_.insert(rank);
      }
    }
  }

  // In rounds, so that the order of ranks leaves no mark.
  void search() {
    constexpr int kMostHops = 64;
    std::set<Rank> found = held_up_;
    for (int hop = 0; !found.empty() && hop < kMostHops; ++hop) {
      found = next_round();
      held_up_.insert(found.begin(), found.end());
    }
    close_circles();
    for (auto& [key, wait] : found_) {
      waits_.push_back(std::move(wait));
    }
  }

 private:
  using Key = std::tuple<size_t, WaitKind, uint64_t, int>;

  std::set<Rank> next_round() {
    std::set<Rank> found;
    for (const auto& [rank, oldest] : oldest_) {
      if (!held_up_.contains(rank)) {
        const Ranks awaited =
            oldest.operation->collective ? holding_members(oldest) : holding_peer(oldest);
        if (!awaited.empty()) {
          add(oldest, awaited, found_);
          found.insert(rank);
        }
      }
    }
    return found;
  }

  // Members that are held up before they come to it.
  Ranks holding_members(const Oldest& own) const {
    Ranks ranks;
    for (const Member& member : run_.communicators[own.communicator].members) {
      const auto other = oldest_.find(member.rank);
      const bool in_it = other != oldest_.end() && other->second.communicator == own.communicator &&
                         other->second.operation->collective &&
                         other->second.operation->sequence >= own.operation->sequence;
      if (held_up_.contains(member.rank) && !in_it &&
          is_in(run_, member, own.operation->sequence)) {
        ranks.push_back(member.rank);
      }
    }
    return ranks;
  }

  Ranks holding_peer(const Oldest& own) const {
    const Member* const peer = member_at(run_.communicators[own.communicator], own.operation->peer);
    if (peer == nullptr || !held_up_.contains(peer->rank)) {
      return {};
    }
    const auto other = oldest_.find(peer->rank);
    const bool in_it = other != oldest_.end() && is_counterpart(own, other->second);
    return in_it ? Ranks() : Ranks{peer->rank};
  }

  void add(const Oldest& own, const Ranks& awaited, std::map<Key, Wait>& found) const {
    const OperationText& operation = *own.operation;
    const WaitKind kind = operation.collective ? WaitKind::kCollective
                          : operation.receive  ? WaitKind::kReceive
                                               : WaitKind::kSend;
    // Members of one collective wait together.
    const int apart = operation.collective ? -1 : own.member->rank.value;
    Wait& wait = found[{own.communicator, kind, operation.sequence, apart}];
    if (wait.waiters.empty()) {
      wait.kind = kind;
      wait.communicator = own.communicator;
      wait.sequence = operation.sequence;
      wait.details = operation;
      wait.operation = call_name(run_.processes[own.member->process], operation.call);
      for (const Rank rank : awaited) {
        Awaited& other = wait.awaited.emplace_back();
        other.rank = rank;
        other.entered = other.held_up = other.by_order = true;
      }
    }
    add_waiter(own, wait);
  }

  void add_waiter(const Oldest& own, Wait& wait) const {
    const OperationText& operation = *own.operation;
    Waiter waiter = waiter_of(run_, *own.member, operation.enter, operation.stack);
    waiter.unfinished = true;
    wait.waiters.push_back(waiter);
  }

  // Members that called it behind something else which does not end either; none if somebody has
  // not called it at all.
  Ranks members_behind(const Oldest& own) const {
    const Communicator& communicator = run_.communicators[own.communicator];
    const uint64_t sequence = own.operation->sequence;
    Ranks behind;
    bool all = communicator.absent.empty() &&
               static_cast<int>(communicator.members.size()) == communicator.size;
    for (const Member& member : communicator.members) {
      const CommunicatorText& text = text_of(run_, member);
      const auto other = oldest_.find(member.rank);
      const OperationText* const part = collective_at(text, sequence);
      all = all && sequence_reached(run_.processes[member.process], text) >= sequence;
      if (other != oldest_.end() && part != nullptr &&
          other->second.operation->enter < part->enter && is_in(run_, member, sequence)) {
        behind.push_back(member.rank);
      }
    }
    return all ? behind : Ranks();
  }

  // Who is missing alone, or with few, where most have come left something out, whatever it is held
  // up in now.
  static bool lacks_most(const Wait& wait) {
    const auto missing = std::count_if(wait.awaited.begin(), wait.awaited.end(),
                                       [](const Awaited& awaited) { return !awaited.entered; });
    return wait.kind == WaitKind::kCollective &&
           static_cast<size_t>(missing) >= wait.waiters.size();
  }

  // Can one come from that operation, over ranks and what they wait in, to one of its own waiters?
  bool comes_back(const Wait& start, const std::multimap<Rank, const Wait*>& by_waiter) const {
    std::set<const Wait*> seen;
    std::vector<const Wait*> open = {&start};
    while (!open.empty()) {
      const Wait* const wait = open.back();
      open.pop_back();
      for (const Awaited& awaited : wait->awaited) {
        const auto [first, last] = by_waiter.equal_range(awaited.rank);
        for (auto at = first; at != last; ++at) {
          if (at->second == &start) {
            return true;
          }
          if (seen.insert(at->second).second) {
            open.push_back(at->second);
          }
        }
      }
    }
    return false;
  }

  // What would be waited in if everything came in the order in which it was called.
  std::map<Key, Wait> held_by_order() const {
    std::set<Rank> waiting;
    for (const Wait& wait : waits_) {
      for (const Waiter& waiter : wait.waiters) {
        waiting.insert(waiter.rank);
      }
    }
    std::map<Key, Wait> held;
    for (const auto& [rank, oldest] : oldest_) {
      const Ranks behind = oldest.operation->collective && !waiting.contains(rank)
                               ? members_behind(oldest)
                               : Ranks();
      if (!behind.empty()) {
        add(oldest, behind, held);
      }
    }
    return held;
  }

  void close_circles() {
    const std::map<Key, Wait> held = held_by_order();
    std::multimap<Rank, const Wait*> by_waiter;
    const auto enter = [&](const Wait& wait) {
      for (const Waiter& waiter : wait.waiters) {
        by_waiter.emplace(waiter.rank, &wait);
      }
    };
    for (const Wait& wait : waits_) {
      if (lacks_most(wait)) {
        enter(wait);
      }
    }
    for (const auto& [key, wait] : held) {
      enter(wait);
    }
    for (const auto& [key, wait] : held) {
      if (comes_back(wait, by_waiter)) {
        found_[key] = wait;
      }
    }
  }

  const Run& run_;
  std::vector<Wait>& waits_;
  ByRank oldest_;
  std::set<Rank> held_up_;
  std::map<Key, Wait> found_;
};

}  // namespace

void add_order_waits(const Run& run, std::vector<Wait>& waits) {
  OrderSearch(run, waits).search();
}

}  // namespace traintrace
