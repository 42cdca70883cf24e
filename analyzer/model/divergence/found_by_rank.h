// Divergences, found by the communicator and the only rank that deviates: there may be thousands of
// both.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "analyzer/model/divergence/divergences.h"

namespace traintrace {

class FoundByRank {
 public:
  // Takes them; `found` is empty until put_back().
  explicit FoundByRank(std::vector<Divergence>& found);

  // Those that the rank alone is to blame for, in order; by their numbers in operator[].
  std::span<const size_t> of(size_t communicator, Rank rank) const;
  const Divergence& operator[](size_t number) const { return all_[number]; }
  // Whether a call on one of them is known that belonged on the other.
  bool is_swapped(size_t a, size_t b) const;
  // How many were added or erased: what was looked up before may have changed.
  size_t changes() const { return changes_; }

  void add(Divergence one);
  // How many there were.
  size_t erase(size_t communicator, Rank rank);

  // In the order in which they were found.
  void put_back(std::vector<Divergence>& found);

 private:
  using Key = std::pair<size_t, Rank>;
  void list(size_t number);

  std::vector<Divergence> all_;
  std::vector<bool> erased_;
  std::map<Key, std::vector<size_t>> by_rank_;
  std::map<std::pair<size_t, size_t>, size_t> swapped_;  // how many, by communicators
  size_t changes_ = 0;
};

}  // namespace traintrace
