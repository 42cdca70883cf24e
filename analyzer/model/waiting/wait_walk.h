// Walking the graph of who waits for whom.  Its vertices are ranks and waits: all who wait in one
// operation wait for the same ranks, so that edges stay linear in the members of a communicator.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/waiting/waits.h"

namespace traintrace {

class WaitWalk {
 public:
  // `ranks`: by rank; those of waits that are not among them are left out.
  WaitWalk(const Ranks& ranks, const std::vector<Wait>& waits);

  // Strongly connected components without an edge out; in order of their first ranks.
  std::vector<Ranks> ends() const;
  // All from which there is a way to one of `roots`, themselves left out; by rank.
  Ranks all_before(const Ranks& roots) const;
  // Some of its ranks wait for each other.
  bool has_cycles() const;
  // Without `rank` nobody in `cycle`, an end of several ranks, waits in a cycle: if it goes on,
  // all of them do.
  bool frees_all(const Ranks& cycle, Rank rank) const;
  // All such ranks, by rank.
  Ranks repairs_of(const Ranks& cycle) const;
  // The only such rank; rank -1: it is no rank alone.
  Rank repair_of(const Ranks& cycle) const;

 private:
  using Vertex = uint32_t;  // ranks_, then waits
  using Edges = std::vector<std::vector<Vertex>>;

  Vertex vertex_of(Rank rank) const;
  Ranks one_way_around(const Ranks& cycle) const;
  bool is_free_of_cycles(const std::vector<bool>& among) const;

  const Ranks& ranks_;
  Edges next_, before_;
};

}  // namespace traintrace
