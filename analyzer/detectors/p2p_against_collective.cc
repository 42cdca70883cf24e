// A rank is in a send or receive on a communicator whose other members are in a collective.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_peers_against_collective(const Run& run) {
  return find_diverged(run, {DivergenceKind::kPeer}, "p2p.against-collective");
}

}  // namespace traintrace
