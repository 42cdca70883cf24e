// A send or receive names another peer than the one that waits for it.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_wrong_peer(const Run& run) {
  return find_diverged(run, {DivergenceKind::kWrongPeer}, "p2p.wrong-peer");
}

}  // namespace traintrace
