// Block: where each rank stands, and for whom it waits there.  Comes in: a run.  Goes out: plain
// data, of which judge/frontier/frontier_root.h makes hangs.
#pragma once

#include <map>
#include <vector>

#include "analyzer/judge/frontier/standing.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Of one rank.
struct Node {
  Rank rank;
  const RankState* state = nullptr;  // null: no trace
  const Unit* unit = nullptr;        // its frontier; null: nothing that holds it up is known
  bool open = false;     // its dump is older than what others say of it: where it is is not known
  bool stalled = false;  // its peers are through with its frontier
  bool deviant = false;  // what it called at its frontier is not what the others did
  bool vague = false;    // whom it waits for is not kept, or has gone on since
  bool gone = false;     // it wrote its dump long before the others
  // Its stream has not come to its frontier, as those of others have, and what came before is done.
  bool unreached = false;
  bool answered = false;  // a peer is through with its frontier, which proves nothing
  bool by_later = false;  // it waits for ranks without a trace in what it issued after what is kept
  Ranks through = {};     // stalled, answered: those peers
};

// Calls that met and differ.
struct Disagreement {
  Ranks deviants;  // of a tie: all; of messages: whoever is in one
  size_t index =
      0;  // in Run::divergences, as it will be with BlockedFrontiers::divergences after them
  size_t communicator = 0;
  uint64_t sequence = 0;  // of the collective in which they met; 0: messages
};

struct BlockedFrontiers {
  explicit BlockedFrontiers(const Run& run) : standings(run) {}

  Standings standings;  // nodes point into it
  std::map<Rank, Node> nodes;
  std::vector<Wait> waits;
  std::vector<Disagreement> disagreements;
  std::vector<Divergence> divergences;  // that Run::divergences lacks
};

// The members of the collective at its frontier that stand in it, and whose streams have come to
// it.
Ranks reached_with(const Run& run, const BlockedFrontiers& blocked, const Node& node);

BlockedFrontiers block_frontiers(const Run& run);

}  // namespace traintrace
