// Walking the graph of who waits for whom.
#pragma once

#include <map>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

class WaitWalk;

// By waits rather than by pairs of ranks: a communicator of n ranks is one wait, not n * n edges.
struct WaitSearch {
  explicit WaitSearch(const std::vector<Wait>& all);

  // All that wait for these ranks, directly or not, themselves left out.
  Ranks victims_of(const Ranks& roots) const;

  // Ranks that are waited for and wait for nobody; and where there is no such rank behind a wait,
  // those that only wait for what lies behind it on the streams of more others: they came to
  // another operation instead, which the others cannot begin for want of the first.  They are not
  // if one of the others alone could undo it.
  Ranks roots() const;

  // All that wait or are waited for; by rank.
  Ranks all() const;

  // Of ranks that no root explains: those that wait for each other.
  Ranks cycle() const;

  const std::vector<Wait>& waits;
  std::map<Rank, std::vector<size_t>> waits_of;   // that it is a waiter of
  std::map<Rank, std::vector<size_t>> waits_for;  // that it is awaited in

 private:
  Ranks unexplained(const Ranks& roots) const;
  Ranks in_other_place(const WaitWalk& walk, const Ranks& cycle) const;
  // Whom these wait for, themselves left out.
  Ranks holders_of(const Ranks& ranks) const;
};

}  // namespace traintrace
