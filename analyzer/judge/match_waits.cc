#include "analyzer/judge/match_waits.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/judge/completion.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/wait_search.h"

namespace traintrace {
namespace {

class MatchWaits {
 public:
  MatchWaits(const Run& run, Ranks explained, std::vector<Wait>& waits)
      : run_(run), completion_(run, std::move(explained)), waits_(waits) {}

  void add() {
    std::vector<const Match*> matches;
    for (const Match& match : completion_.matches()) {
      if (!match.met) {
        matches.push_back(&match);
      }
    }
    std::sort(matches.begin(), matches.end(), [](const Match* a, const Match* b) {
      return std::tuple(a->communicator, !a->collective, a->sequence) <
             std::tuple(b->communicator, !b->collective, b->sequence);
    });
    for (const Match* match : matches) {
      match->collective ? add_collective(*match) : add_message(*match);
    }
  }

 private:
  Wait wait_in(const Match& match) const {
    Wait wait;
    wait.communicator = match.communicator;
    wait.sequence = match.sequence;
    wait.awaited = match.missing;
    for (const size_t index : match.parts) {
      const MatchPart& part = completion_.part(index);
      if (!completion_.has_begun(part)) {
        Awaited& awaited = wait.awaited.emplace_back();
        awaited.rank = part.member->rank;
        awaited.entered = awaited.held_up = true;
        awaited.stopped = completion_.is_stopped(part);
        awaited.moved = text_of(run_, *part.member).last;
      }
    }
    std::sort(wait.awaited.begin(), wait.awaited.end(),
              [](const Awaited& a, const Awaited& b) { return a.rank < b.rank; });
    return wait;
  }

  // It died with its part undone, and all others have issued theirs: else it may have waited too.
  static bool is_lost(const Match& match, Rank rank) {
    return std::all_of(match.missing.begin(), match.missing.end(),
                       [](const Awaited& awaited) { return awaited.entered; }) &&
           std::any_of(match.missing.begin(), match.missing.end(),
                       [&](const Awaited& awaited) { return awaited.rank == rank; });
  }

  void add_waiter(const MatchPart& part, Wait& wait) const {
    const OperationText& operation = *part.operation;
    Waiter waiter = waiter_of(run_, *part.member, operation.enter, operation.stack);
    waiter.unfinished =
        certainly_unfinished(gpu_state(run_.processes[part.member->process], operation));
    wait.waiters.push_back(waiter);
    if (wait.details.enter == 0) {
      wait.details = operation;
      wait.operation = call_name(run_.processes[part.member->process], operation.call);
    }
  }

  void add_collective(const Match& match) {
    Wait wait = wait_in(match);
    bool certain = false;
    for (const size_t index : match.parts) {
      const MatchPart& part = completion_.part(index);
      if (completion_.has_begun(part) && !is_lost(match, part.member->rank)) {
        add_waiter(part, wait);
        certain = certain || part.needs;
      }
    }
    if (certain && !wait.awaited.empty()) {
      waits_.push_back(std::move(wait));
    }
  }

  // Of those that a rank exchanges with another the first: later ones wait behind it.
  void add_message(const Match& match) {
    Wait wait = wait_in(match);
    for (const size_t index : match.parts) {
      const MatchPart& part = completion_.part(index);
      const auto pair = std::tuple(match.communicator, part.member->rank, part.operation->peer);
      if (completion_.has_begun(part) && part.needs && !wait.awaited.empty() &&
          pairs_.insert(pair).second) {
        wait.kind = part.operation->receive ? WaitKind::kReceive : WaitKind::kSend;
        add_waiter(part, wait);
      }
    }
    if (!wait.waiters.empty()) {
      waits_.push_back(std::move(wait));
    }
  }

  const Run& run_;
  const Completion completion_;
  std::vector<Wait>& waits_;
  std::set<std::tuple<size_t, Rank, int>> pairs_;
};

// Those that died in an operation, whenever.
Ranks dead_ranks(const Run& run) {
  Ranks dead;
  for (const Communicator& communicator : run.communicators) {
    for (const size_t i : by_death(run, communicator)) {
      insert(dead, communicator.members[i].rank);
    }
  }
  return dead;
}

// For how long it had waited in one of these when it died.
TimeNs waited_until_death(const std::vector<Wait>& waits, Rank dead) {
  TimeNs longest = 0;
  for (const Wait& wait : waits) {
    for (const Waiter& waiter : wait.waiters) {
      if (waiter.rank == dead) {
        longest = std::max(longest, elapsed(waiter.since, waiter.until));
      }
    }
  }
  return longest;
}

// That rank was gone before the dead one died, or may have been where that one gave up; or it had
// kept it waiting for as long as a hang takes.
bool explains_death(const Run& run, const std::vector<Wait>& waits, Rank root, Rank dead) {
  const RankState* const state = state_of(run, root);
  if (state == nullptr || !has_ended(*state)) {
    return waited_until_death(waits, dead) >= run.hang_after;
  }
  const RankState& own = *state_of(run, dead);
  return may_have_given_up(run, own) ? may_have_died_first(run, *state, own)
                                     : !may_have_died_first(run, own, *state);
}

// Who died while it waited for a rank that had failed, or did not come, died of that: what all had
// entered before was most likely complete.
Ranks explained_deaths(const Run& run) {
  const Ranks dead = dead_ranks(run);
  if (dead.empty()) {
    return {};
  }
  std::vector<Wait> waits;
  MatchWaits(run, dead, waits).add();
  const WaitSearch search(waits);
  Ranks explained;
  for (const Rank root : search.roots()) {
    for (const Rank victim : search.victims_of({root})) {
      if (contains(dead, victim) && explains_death(run, waits, root, victim)) {
        insert(explained, victim);
      }
    }
  }
  return explained;
}

}  // namespace

void add_match_waits(const Run& run, std::vector<Wait>& waits) {
  MatchWaits(run, explained_deaths(run), waits).add();
}

}  // namespace traintrace
