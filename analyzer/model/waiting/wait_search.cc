#include "analyzer/model/waiting/wait_search.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "analyzer/model/waiting/wait_walk.h"

namespace traintrace {
namespace {

bool is_held_up(const Wait& wait) {
  return std::all_of(wait.awaited.begin(), wait.awaited.end(),
                     [](const Awaited& awaited) { return awaited.held_up; });
}

}  // namespace

WaitSearch::WaitSearch(const std::vector<Wait>& all) : waits(all) {
  for (size_t i = 0; i < waits.size(); ++i) {
    for (const Waiter& waiter : waits[i].waiters) {
      waits_of[waiter.rank].push_back(i);
    }
    for (const Awaited& awaited : waits[i].awaited) {
      waits_for[awaited.rank].push_back(i);
    }
  }
}

Ranks WaitSearch::victims_of(const Ranks& roots) const {
  std::set<Rank> seen(roots.begin(), roots.end());
  std::vector<Rank> open = roots;
  std::vector<bool> walked(waits.size(), false);
  while (!open.empty()) {
    const auto next = waits_for.find(open.back());
    open.pop_back();
    for (const size_t index : next == waits_for.end() ? std::vector<size_t>{} : next->second) {
      if (walked[index]) {
        continue;
      }
      walked[index] = true;
      for (const Waiter& waiter : waits[index].waiters) {
        if (seen.insert(waiter.rank).second) {
          open.push_back(waiter.rank);
        }
      }
    }
  }
  Ranks victims;
  std::copy_if(seen.begin(), seen.end(), std::back_inserter(victims),
               [&](Rank rank) { return !contains(roots, rank); });
  return victims;
}

Ranks WaitSearch::unexplained(const Ranks& roots) const {
  const Ranks victims = victims_of(roots);
  Ranks rest;
  for (const auto& [rank, indices] : waits_for) {
    if (!contains(victims, rank) && !contains(roots, rank)) {
      rest.push_back(rank);
    }
  }
  return rest;
}

Ranks WaitSearch::all() const {
  Ranks ranks;
  for (const auto* const places : {&waits_of, &waits_for}) {
    for (const auto& [rank, indices] : *places) {
      insert(ranks, rank);
    }
  }
  return ranks;
}

Ranks WaitSearch::roots() const {
  Ranks found;
  for (const auto& [rank, indices] : waits_for) {
    if (!waits_of.contains(rank)) {
      found.push_back(rank);
    }
  }
  const Ranks ranks = all();
  const WaitWalk walk(ranks, waits);
  for (const Ranks& end : walk.ends()) {
    for (const Rank rank : end.size() > 1 ? in_other_place(walk, end) : Ranks()) {
      insert(found, rank);
    }
  }
  return found;
}

// If that is all of them, their streams hold each other up, and nobody came to the wrong place.  If
// no more hold them up than there are, or one of the others alone could undo it as well, which of
// the two is the right order is not told.
Ranks WaitSearch::in_other_place(const WaitWalk& walk, const Ranks& cycle) const {
  Ranks held_up;
  std::copy_if(cycle.begin(), cycle.end(), std::back_inserter(held_up), [&](Rank rank) {
    const std::vector<size_t>& own = waits_of.at(rank);
    return std::all_of(own.begin(), own.end(),
                       [&](size_t index) { return is_held_up(waits[index]); });
  });
  if (held_up.size() >= holders_of(held_up).size()) {
    return {};
  }
  const Ranks repairs = walk.repairs_of(cycle);
  const bool told = std::all_of(repairs.begin(), repairs.end(),
                                [&](Rank rank) { return contains(held_up, rank); });
  return told ? held_up : Ranks();
}

Ranks WaitSearch::holders_of(const Ranks& ranks) const {
  Ranks holders;
  for (const Rank rank : ranks) {
    for (const size_t index : waits_of.at(rank)) {
      for (const Awaited& awaited : waits[index].awaited) {
        if (!contains(ranks, awaited.rank)) {
          insert(holders, awaited.rank);
        }
      }
    }
  }
  return holders;
}

Ranks WaitSearch::cycle() const {
  Ranks core = unexplained(roots());
  // Whoever is waited for only from outside leads away from it.
  for (size_t before = core.size() + 1; core.size() < before;) {
    before = core.size();
    std::erase_if(core, [&](Rank rank) {
      const std::vector<size_t>& indices = waits_for.at(rank);
      return std::none_of(indices.begin(), indices.end(), [&](size_t index) {
        const auto& waiters = waits[index].waiters;
        return std::any_of(waiters.begin(), waiters.end(),
                           [&](const Waiter& waiter) { return contains(core, waiter.rank); });
      });
    });
  }
  return core;
}

}  // namespace traintrace
