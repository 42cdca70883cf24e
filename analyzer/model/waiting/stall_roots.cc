// Which stalls are the reason for others, and for hangs.
#include <algorithm>
#include <tuple>
#include <utility>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/host_functions.h"
#include "analyzer/model/waiting/stalls.h"
#include "analyzer/model/waiting/wait_search.h"

namespace traintrace {
namespace {

Ranks in_other_faults(const Run& run) {
  Ranks ranks;
  const auto add = [&](const Ranks& more) {
    std::for_each(more.begin(), more.end(), [&](Rank rank) { insert(ranks, rank); });
  };
  for (const Hang& hang : run.waits.hangs) {
    add(hang.roots);
    add(hang.victims);
  }
  for (const Divergence& divergence : run.divergences) {
    if (divergence.kind != DivergenceKind::kHarmlessType) {
      add(divergence.deviants);
      add(divergence.others);
    }
  }
  return ranks;
}

// Takes out those that share a rank with these, or with another that does.  Who waits in them.
Ranks erase_consequences(const Run& run, Ranks involved, std::vector<Stall>& stalls) {
  Ranks waiting;
  const auto follows = [&](const Stall& stall) {
    const std::vector<Member>& members = run.communicators[stall.communicator].members;
    return std::any_of(members.begin(), members.end(),
                       [&](const Member& member) { return contains(involved, member.rank); });
  };
  for (auto found = stalls.begin();
       (found = std::find_if(stalls.begin(), stalls.end(), follows)) != stalls.end();
       stalls.erase(found)) {
    for (const Member& member : run.communicators[found->communicator].members) {
      insert(involved, member.rank);
    }
    for (const StalledRank& rank : found->ranks) {
      if (rank.stuck > 0) {
        insert(waiting, rank.rank);
      }
    }
  }
  return waiting;
}

Ranks members_of(const Run& run, const Stall& stall) {
  Ranks ranks;
  for (const Member& member : run.communicators[stall.communicator].members) {
    insert(ranks, member.rank);
  }
  return ranks;
}

void add_victims(const Ranks& ranks, RootStall& root) {
  for (const Rank rank : ranks) {
    if (!contains(root.stall.suspects, rank)) {
      insert(root.victims, rank);
    }
  }
}

// What holds up one stream holds up all that lies behind it, of several communicators perhaps.
void add_root(const Stall& stall, const Hang& hang, std::vector<RootStall>& roots) {
  auto known = std::find_if(roots.begin(), roots.end(), [&](const RootStall& root) {
    return root.stall.kind == stall.kind && root.stall.suspects == stall.suspects;
  });
  if (known == roots.end()) {
    known = roots.insert(roots.end(), RootStall{stall, &hang, {}});
  }
  add_victims(hang.victims, *known);
  add_victims(hang.roots, *known);
}

// Those that wait for what lies behind the streams that it is about.
void add_waiting(const WaitSearch& search, RootStall& root) {
  if (root.stall.kind == StallKind::kBlocked) {
    add_victims(search.victims_of(root.stall.suspects), root);
  }
}

// Where functions run on all members, nobody waits for another - unless somebody else waits for
// them.
void erase_work(const Run& run, std::vector<RootStall>& roots, std::vector<Stall>& stalls) {
  std::erase_if(stalls, [&](const Stall& stall) { return is_at_work(run, stall); });
  std::erase_if(roots, [&](const RootStall& root) {
    const Ranks members = members_of(run, root.stall);
    return is_at_work(run, root.stall) &&
           std::all_of(root.victims.begin(), root.victims.end(),
                       [&](Rank rank) { return contains(members, rank); });
  });
}

// It has come to the next collective, for which it needs those that are known to be in this one.
bool waits_behind(const Run& run, const Stall& stall, Rank rank) {
  const Communicator& communicator = run.communicators[stall.communicator];
  const Member* const member = member_of(communicator, rank);
  const uint64_t next = stall.sequence + 1;
  return stall.kind == StallKind::kBehind && member != nullptr && contains(stall.finished, rank) &&
         sequence_reached(run.processes[member->process], text_of(run, *member)) >= next &&
         is_in(run, *member, next) &&
         std::all_of(stall.suspects.begin(), stall.suspects.end(), [&](Rank suspect) {
           return std::any_of(stall.ranks.begin(), stall.ranks.end(),
                              [&](const StalledRank& other) {
                                return other.rank == suspect && certainly_unfinished(other.gpu);
                              });
         });
}

// Those that wait in it, or in what lies behind something of theirs.
Ranks held_by(const Run& run, const std::vector<Stall>& stalls, const Stall& first) {
  Ranks held;
  const auto add = [&](const Stall& stall) {
    const size_t before = held.size();
    for (const StalledRank& rank : stall.ranks) {
      if (rank.stuck > 0) {
        insert(held, rank.rank);
      }
    }
    return held.size() > before;
  };
  add(first);
  std::vector<const Stall*> later;
  for (const Stall& stall : stalls) {
    if (!is_first(run, stall)) {
      later.push_back(&stall);
    }
  }
  for (bool more = true; more;) {
    more = false;
    for (const Stall* const stall : later) {
      const bool follows =
          std::any_of(stall->ranks.begin(), stall->ranks.end(), [&](const StalledRank& rank) {
            return contains(held, rank.rank) && is_behind_another(run, *stall, rank);
          });
      more = (follows && add(*stall)) || more;
    }
  }
  return held;
}

bool is_same(const Stall& a, const Stall& b) {
  return a.communicator == b.communicator && a.sequence == b.sequence && a.since == b.since;
}

// All others lie behind something that is not known to be over, or were called later than it.
bool is_only_first(const Run& run, const Stall& stall) {
  if (!is_first(run, stall)) {
    return false;
  }
  const std::vector<Stall> all = find_stalls(run, HostWait::kAtMost);
  return std::none_of(all.begin(), all.end(), [&](const Stall& other) {
    return !is_same(stall, other) && is_first(run, other);
  });
}

}  // namespace

bool holds_up(const Run& run, const std::vector<Stall>& stalls, const Stall& stall,
              const Hang& hang) {
  const auto waits_there = [&](Rank rank) {
    return std::any_of(stall.ranks.begin(), stall.ranks.end(), [&](const StalledRank& other) {
      return other.rank == rank && other.stuck > 0;
    });
  };
  if (!hang.blocked) {
    return false;
  }
  const bool certain = stall.known || std::any_of(stall.ranks.begin(), stall.ranks.end(),
                                                  [](const StalledRank& rank) {
                                                    return certainly_unfinished(rank.gpu);
                                                  });
  if (certain && is_first(run, stall)) {
    const Ranks held = held_by(run, stalls, stall);
    if (std::all_of(hang.roots.begin(), hang.roots.end(),
                    [&](Rank rank) { return contains(held, rank); })) {
      return true;
    }
  }
  if (stall.known && std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
        return contains(stall.suspects, rank) || waits_there(rank) ||
               waits_behind(run, stall, rank);
      })) {
    return true;
  }
  // Their hosts wait for GPUs that lack nothing: nothing else is left to hold those up.
  return (certain || std::all_of(hang.roots.begin(), hang.roots.end(), waits_there)) &&
         is_only_first(run, stall);
}

std::vector<RootStall> root_stalls(const Run& run) {
  std::vector<RootStall> roots;
  if (run.waits.by_frontier) {
    for (const FrontierStall& found : run.waits.stalls) {
      roots.push_back({found.stall, nullptr, found.victims});
    }
    return roots;
  }
  std::vector<Stall> stalls = find_stalls(run);
  for (const Hang& hang : run.waits.hangs) {
    const auto found = std::find_if(stalls.begin(), stalls.end(), [&](const Stall& stall) {
      return holds_up(run, stalls, stall, hang);
    });
    if (found != stalls.end() && hang.divergences.empty()) {
      add_root(*found, hang, roots);
    }
  }
  erase_work(run, roots, stalls);
  erase_consequences(run, in_other_faults(run), stalls);
  for (RootStall& root : roots) {
    add_victims(erase_consequences(run, members_of(run, root.stall), stalls), root);
  }
  // What lies behind nothing else counts before what does, what is known before what is not, what
  // came first before what came of it.
  const auto order = [&](const Stall& stall) {
    return std::tuple(!is_first(run, stall), !stall.known, stall.since);
  };
  std::stable_sort(stalls.begin(), stalls.end(),
                   [&](const Stall& a, const Stall& b) { return order(a) < order(b); });
  while (!stalls.empty()) {
    // Messages behind something else wait for that, be it for a rank that is only late.
    if (stalls.front().sequence == 0 && !is_first(run, stalls.front())) {
      stalls.erase(stalls.begin());
      continue;
    }
    roots.push_back({std::move(stalls.front()), nullptr, {}});
    stalls.erase(stalls.begin());
    add_victims(erase_consequences(run, members_of(run, roots.back().stall), stalls), roots.back());
  }
  // Whoever waits behind them, also in what is no stall by itself since it has not lasted for long
  // enough.
  std::vector<Stall> others =
      roots.empty() ? std::vector<Stall>() : find_stalls(run, HostWait::kAtMost);
  std::erase_if(others, [&](const Stall& stall) { return is_at_work(run, stall); });
  for (RootStall& root : roots) {
    add_victims(held_by(run, others, root.stall), root);
  }
  const WaitSearch search(run.waits.waits);
  std::for_each(roots.begin(), roots.end(), [&](RootStall& root) { add_waiting(search, root); });
  return roots;
}

}  // namespace traintrace
