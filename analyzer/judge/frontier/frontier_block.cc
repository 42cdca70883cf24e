#include "analyzer/judge/frontier/frontier_block.h"

#include "analyzer/judge/frontier/frontier_parts.h"

namespace traintrace {

BlockedFrontiers block_frontiers(const Run& run) {
  BlockedFrontiers blocked(run);
  find_nodes(run, blocked);
  find_disagreements(run, blocked);
  find_edges(run, blocked);
  return blocked;
}

}  // namespace traintrace
