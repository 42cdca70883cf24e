#include "analyzer/judge/frontier/frontier_root.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/judge/frontier/frontier_cycle.h"
#include "analyzer/judge/frontier/frontier_moments.h"
#include "analyzer/judge/frontier/untraced_root.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/wait_walk.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

class Roots {
 public:
  Roots(const Run& run, BlockedFrontiers blocked) : run_(run), blocked_(std::move(blocked)) {
    graph_.waits = std::move(blocked_.waits);
    graph_.divergences = std::move(blocked_.divergences);
  }

  WaitGraph find() {
    add_roots();
    return std::move(graph_);
  }

 private:
  // Of one match: all that are in it have it at their frontier.
  using MatchKey = std::tuple<size_t, bool, uint64_t>;

  // Messages of one communicator are taken together.
  static MatchKey match_of(const Unit& unit) {
    const bool collective = unit.first().collective;
    return {unit.communicator, collective, collective ? unit.first().sequence : 0};
  }

  void add_roots() {
    const Ranks ranks = ranks_to_judge();
    const WaitWalk walk(ranks, graph_.waits);
    std::map<MatchKey, Ranks> together;
    std::map<MatchKey, Ranks> behind;
    // What some wait for.
    bool unknown = std::any_of(blocked_.nodes.begin(), blocked_.nodes.end(),
                               [](const auto& node) { return node.second.by_later; });
    Ranks untraced;
    for (const Ranks& root : walk.ends()) {
      const Node& node = blocked_.nodes.at(root.front());
      if (root.size() > 1) {
        add_cycle(walk, root);
      } else if (node.gone) {
        add_host(walk, root, Fate::kDumpedEarly);
      } else if (node.stalled && !node.vague) {
        insert(behind[{node.unit->communicator, true, node.unit->first().sequence}], node.rank);
      } else if (node.unreached) {
        Ranks& all = together[match_of(*node.unit)];
        insert(all, node.rank);
        for (const Rank rank : reached_with(run_, blocked_, node)) {
          insert(all, rank);
        }
      } else if (node.vague || node.deviant) {
        unknown = unknown || node.vague;
      } else if (node.state == nullptr) {
        insert(untraced, node.rank);
      } else if (node.unit == nullptr || (node.answered && is_missing(node.rank))) {
        add_host(walk, root, Fate::kAlive);
      } else {
        insert(together[match_of(*node.unit)], node.rank);
      }
    }
    add_untraced(walk, untraced);
    for (const auto& [key, stuck] : behind) {
      add_stalled(walk, stuck);
    }
    for (const auto& [key, stuck] : together) {
      if (const auto differing = std::get<1>(key) ? std::nullopt : differing_in(std::get<0>(key))) {
        add_message_root(walk, *differing);
        continue;
      }
      add_stuck_together(walk, std::get<0>(key), std::get<2>(key), stuck);
    }
    join_hosts();
    leave_out_moments(run_, blocked_, graph_);
    for (const Disagreement& disagreement : blocked_.disagreements) {
      is_of_messages(disagreement) ? add_message_root(walk, disagreement)
                                   : add_disagreement_root(walk, disagreement);
    }
    if (graph_.hangs.size() == 1 && graph_.stalls.empty() && blocked_.disagreements.empty() &&
        graph_.within_limits.empty() && !graph_.undated && !unknown) {
      Hang& hang = graph_.hangs.front();
      hang.alone = hang.roots.size() == 1 && !may_lie_with_a_waiter(run_, graph_, hang);
    }
  }

  Ranks nodes_of_graph() const {
    Ranks ranks;
    for (const auto& [rank, node] : blocked_.nodes) {
      if (!node.open) {
        ranks.push_back(rank);
      }
    }
    return ranks;
  }

  // If ranks without a trace called what they should, and others would wait for each other still,
  // that is where it began: of the former nothing is known, and they do not explain it.
  Ranks ranks_to_judge() const {
    const Ranks all = nodes_of_graph();
    Ranks traced = all;
    std::erase_if(traced, [&](Rank rank) { return blocked_.nodes.at(rank).state == nullptr; });
    const bool explains =
        traced.size() == all.size() || !WaitWalk(traced, graph_.waits).has_cycles();
    return explains ? all : traced;
  }

  // Where that rank is awaited, by one of those where it is not empty: best where it is missing,
  // then the earliest.
  std::optional<size_t> wait_for(Rank rank, const Ranks& among) const {
    std::optional<size_t> best;
    std::tuple<bool, TimeNs> best_weight;
    for (size_t i = 0; i < graph_.waits.size(); ++i) {
      const Wait& wait = graph_.waits[i];
      const auto awaited = std::find_if(wait.awaited.begin(), wait.awaited.end(),
                                        [&](const Awaited& other) { return other.rank == rank; });
      const bool counts = awaited != wait.awaited.end() &&
                          (among.empty() || std::any_of(wait.waiters.begin(), wait.waiters.end(),
                                                        [&](const Waiter& waiter) {
                                                          return contains(among, waiter.rank);
                                                        }));
      if (!counts) {
        continue;
      }
      const std::tuple weight(awaited->entered, wait.details.enter);
      if (!best || weight < best_weight) {
        best = i;
        best_weight = weight;
      }
    }
    return best;
  }

  // Somebody waits for it in what it has not entered.  Else it has done what its host can do: what
  // it entered is behind work of its own that does not get done.
  bool is_missing(Rank rank) const { return !has_entered_all({rank}); }

  bool has_entered_all(const Ranks& roots) const {
    return std::all_of(graph_.waits.begin(), graph_.waits.end(), [&](const Wait& wait) {
      return std::all_of(wait.awaited.begin(), wait.awaited.end(), [&](const Awaited& awaited) {
        return awaited.entered || !contains(roots, awaited.rank);
      });
    });
  }

  TimeNs waited_in(const Wait& wait) const {
    TimeNs waited = 0;
    for (const Waiter& waiter : wait.waiters) {
      waited = std::max(waited, elapsed(waiter.since, waiter.until));
    }
    return waited;
  }

  void add_host(const WaitWalk& walk, const Ranks& roots, Fate fate) {
    const auto wait = wait_for(roots.front(), {});
    if (!wait) {
      return;
    }
    Hang hang;
    hang.wait = *wait;
    hang.fate = fate;
    hang.roots = roots;
    hang.victims = walk.all_before(roots);
    hang.waited = waited_in(graph_.waits[*wait]);
    hang.witnessed = hang.waited;
    hang.entered = has_entered_all(roots);
    if (hang.waited >= run_.hang_after) {
      graph_.hangs.push_back(std::move(hang));
    }
  }

  // Of those that another of them may hold up nothing tells that they did not wait too.
  void add_untraced(const WaitWalk& walk, const Ranks& untraced) {
    const Rank sole = sole_untraced_root(run_, walk, untraced);
    for (const Rank rank : untraced) {
      if (sole == Rank() || rank == sole) {
        add_host(walk, {rank}, Fate::kUntraced);
      }
    }
    if (sole != Rank() && !graph_.hangs.empty() && graph_.hangs.back().roots == Ranks{sole}) {
      graph_.hangs.back().victims = walk.all_before(untraced);
    }
  }

  const Divergence& divergence_of(const Disagreement& disagreement) const {
    return divergence_at(run_, graph_, disagreement.index);
  }

  bool is_of_messages(const Disagreement& disagreement) const {
    return traintrace::is_of_messages(divergence_of(disagreement).kind);
  }

  void add_disagreement_root(const WaitWalk& walk, const Disagreement& disagreement) {
    for (const Rank rank : disagreement.deviants) {
      if (const auto wait = wait_for(rank, {})) {
        Hang hang;
        hang.wait = *wait;
        hang.roots = disagreement.deviants;
        hang.victims = walk.all_before(hang.roots);
        hang.waited = hang.witnessed = waited_in(graph_.waits[*wait]);
        hang.entered = true;
        hang.divergences = {disagreement.index};
        graph_.hangs.push_back(std::move(hang));
        return;
      }
    }
  }

  // All that they issued is complete.
  bool is_idle_host(const Hang& hang) const {
    return hang.fate == Fate::kAlive &&
           std::all_of(hang.roots.begin(), hang.roots.end(),
                       [&](Rank rank) { return has_nothing_in_flight(run_, rank); });
  }

  bool is_in_collective(const Hang& hang) const {
    return graph_.waits[hang.wait].kind == WaitKind::kCollective;
  }

  // Those that are missing from one operation are one root; so are hosts that have nothing to do.
  bool are_one_root(const Hang& a, const Hang& b) const {
    const bool idle =
        is_idle_host(a) && is_idle_host(b) && (is_in_collective(a) || is_in_collective(b));
    return (a.wait == b.wait || idle) && a.fate == b.fate && a.fate != Fate::kCycle;
  }

  void join_hosts() {
    std::vector<Hang> joined;
    for (Hang& hang : graph_.hangs) {
      const auto same = std::find_if(joined.begin(), joined.end(),
                                     [&](const Hang& other) { return are_one_root(other, hang); });
      if (same == joined.end()) {
        joined.push_back(std::move(hang));
        continue;
      }
      same->wait = is_in_collective(*same) ? same->wait : hang.wait;
      for (const Rank rank : hang.roots) {
        insert(same->roots, rank);
      }
      for (const Rank rank : hang.victims) {
        insert(same->victims, rank);
      }
      same->waited = std::max(same->waited, hang.waited);
      same->entered = same->entered && hang.entered;
    }
    graph_.hangs = std::move(joined);
  }

  // It may have been left out, or the other side issued it once too often, or one of them named
  // another peer than it should.
  void add_unanswered(const WaitWalk& walk, const Ranks& cycle, size_t index) {
    const Wait& wait = graph_.waits[index];
    const Node& node = blocked_.nodes.at(wait.awaited.front().rank);
    Hang hang;
    hang.wait = index;
    hang.roots = {node.rank};
    hang.victims = walk.all_before(cycle);
    for (const Rank rank : cycle) {
      if (rank != node.rank) {
        insert(hang.victims, rank);
      }
    }
    hang.waited = hang.witnessed = waited_in(wait);
    hang.by_one_of_two = true;
    if (hang.waited >= run_.hang_after) {
      graph_.hangs.push_back(std::move(hang));
    }
  }

  std::optional<size_t> wait_of(Rank rank) const {
    for (size_t i = 0; i < graph_.waits.size(); ++i) {
      const auto& waiters = graph_.waits[i].waiters;
      if (std::any_of(waiters.begin(), waiters.end(),
                      [&](const Waiter& waiter) { return waiter.rank == rank; })) {
        return i;
      }
    }
    return std::nullopt;
  }

  void add_cycle(const WaitWalk& walk, const Ranks& cycle) {
    const Rank culprit =
        is_all_issued(graph_, cycle)
            ? only_one_in_other_order(run_, blocked_.standings, graph_.waits, cycle)
                  .value_or(Rank())
            : walk.repair_of(cycle);
    const bool is_one = culprit.value >= 0 && !may_be_answered(graph_.waits, cycle, culprit);
    if (const auto missing = is_one ? std::nullopt : missing_in(graph_.waits, cycle)) {
      add_host(walk, {*missing}, Fate::kAlive);
      return;
    }
    if (const auto wait = is_one ? std::nullopt : unanswered_in(graph_.waits, cycle)) {
      add_unanswered(walk, cycle, *wait);
      return;
    }
    Hang hang;
    hang.fate = Fate::kCycle;
    hang.roots = cycle;
    hang.culprits = is_one ? Ranks{culprit} : Ranks{};
    hang.victims = cycle;
    for (const Rank rank : walk.all_before(cycle)) {
      insert(hang.victims, rank);
    }
    hang.wait = is_one ? *wait_of(culprit) : *wait_for(cycle.front(), cycle);
    hang.waited = waited_in(graph_.waits[hang.wait]);
    if (hang.waited >= run_.hang_after) {
      graph_.hangs.push_back(std::move(hang));
    }
  }

  // As many members or more are through with what these are in.
  void add_stalled(const WaitWalk& walk, const Ranks& ranks) {
    const Node& node = blocked_.nodes.at(ranks.front());
    if (node.through.size() < ranks.size()) {
      return;
    }
    for (const Rank rank : ranks) {
      if (wait_for(rank, {})) {
        add_host(walk, {rank}, Fate::kStalled);
        return add_others(walk, ranks, rank);
      }
    }
    Stall stall = stall_at(node.unit->communicator, node.unit->first().sequence, ranks);
    stall.kind = StallKind::kBehind;
    stall.finished = node.through;
    stall.suspects = ranks;
    stall.known = true;
    add_stall(walk, std::move(stall));
  }

  void add_others(const WaitWalk& walk, const Ranks& ranks, Rank first) {
    for (const Rank rank : ranks) {
      if (rank != first && wait_for(rank, {})) {
        add_host(walk, {rank}, Fate::kStalled);
      }
    }
  }

  Stall stall_at(size_t communicator, uint64_t sequence, const Ranks& ranks) const {
    Stall stall;
    stall.communicator = communicator;
    stall.sequence = sequence;
    for (const Rank rank : ranks) {
      const Member& member = *member_of(run_.communicators[communicator], rank);
      const ProcessTrace& trace = run_.processes[member.process];
      const OperationText& operation = sequence == 0
                                           ? blocked_.nodes.at(rank).unit->first()
                                           : *blocked_.standings.collective(member, sequence);
      stall.since = std::max(stall.since, operation.enter);
      const CallSchema* const called = schema_of(trace, operation.call);
      stall.function = called == nullptr ? "a collective" : called->name;  // overwritten
      StalledRank& stalled = stall.ranks.emplace_back();
      stalled.rank = rank;
      stalled.process = member.process;
      stalled.operation = operation;
      stalled.gpu = gpu_state(trace, operation);
    }
    for (StalledRank& stalled : stall.ranks) {
      stalled.stuck = elapsed(stall.since, blocked_.nodes.at(stalled.rank).state->last_seen);
      stall.waited = std::max(stall.waited, stalled.stuck);
    }
    return stall;
  }

  // Messages there that differ, wherever their sides stand.
  std::optional<Disagreement> differing_in(size_t communicator) const {
    for (size_t i = 0; i < run_.divergences.size(); ++i) {
      const Divergence& divergence = run_.divergences[i];
      if (divergence.communicator != communicator || is_harmless(divergence.kind) ||
          !traintrace::is_of_messages(divergence.kind) || divergence.messages.empty()) {
        continue;
      }
      const SideCall& receive = divergence.messages.front().receive;
      if (member_of(run_.communicators[communicator], receive.rank) != nullptr &&
          receive.item.operation.enter != 0) {
        return Disagreement{{receive.rank}, i};
      }
    }
    return std::nullopt;
  }

  // A message of which both sides were issued, and do not agree.
  void add_message_root(const WaitWalk& walk, const Disagreement& disagreement) {
    const Divergence& divergence = divergence_of(disagreement);
    const SideCall& receive = divergence.messages.front().receive;
    const Member& member = *member_of(run_.communicators[divergence.communicator], receive.rank);
    Wait& wait = graph_.waits.emplace_back();
    wait.kind = WaitKind::kReceive;
    wait.communicator = divergence.communicator;
    wait.sequence = receive.item.operation.sequence;
    wait.operation = receive.item.function;
    wait.details = receive.item.operation;
    wait.waiters = {
        waiter_of(run_, member, receive.item.operation.enter, receive.item.operation.stack)};
    Awaited& awaited = wait.awaited.emplace_back();
    awaited.rank = divergence.messages.front().send.rank;
    awaited.entered = true;
    Hang& hang = graph_.hangs.emplace_back();
    hang.wait = graph_.waits.size() - 1;
    hang.roots = {awaited.rank};
    hang.victims = walk.all_before(disagreement.deviants);
    for (const Rank rank : disagreement.deviants) {
      insert(hang.victims, rank);
    }
    hang.waited = hang.witnessed = waited_in(wait);
    hang.entered = true;
    hang.divergences = {disagreement.index};
  }

  // All of them are in it, and nothing else holds them up.
  void add_stuck_together(const WaitWalk& walk, size_t communicator, uint64_t sequence,
                          const Ranks& ranks) {
    Stall stall = stall_at(communicator, sequence, ranks);
    Ranks begun;
    for (const StalledRank& stalled : stall.ranks) {
      insert(stalled.gpu == GpuState::kEnqueued ? stall.suspects : begun, stalled.rank);
      const Ranks& through = blocked_.nodes.at(stalled.rank).through;
      std::for_each(through.begin(), through.end(),
                    [&](Rank rank) { insert(stall.finished, rank); });
    }
    stall.known = !stall.suspects.empty() && stall.suspects.size() <= begun.size() &&
                  std::none_of(ranks.begin(), ranks.end(), [&](Rank rank) {
                    return blocked_.standings.may_stand_earlier(rank);
                  });
    stall.kind = stall.known ? StallKind::kBlocked : StallKind::kTransport;
    if (!stall.known) {
      stall.suspects.clear();
    }
    add_stall(walk, std::move(stall));
  }

  void add_stall(const WaitWalk& walk, Stall stall) {
    if (stall.waited < run_.hang_after) {
      return;
    }
    Ranks ranks;
    for (const StalledRank& stalled : stall.ranks) {
      insert(ranks, stalled.rank);
    }
    graph_.stalls.push_back({std::move(stall), walk.all_before(ranks)});
  }

  const Run& run_;
  BlockedFrontiers blocked_;
  WaitGraph graph_;
};

}  // namespace

WaitGraph roots_of(const Run& run, BlockedFrontiers blocked) {
  return Roots(run, std::move(blocked)).find();
}

}  // namespace traintrace
