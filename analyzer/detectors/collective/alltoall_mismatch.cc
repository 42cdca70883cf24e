// In an all-to-all of sends and receives one rank sends what the other does not expect.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_exchange_mismatch(const Run& run) {
  return find_diverged(run, {DivergenceKind::kExchange}, "collective.alltoall-mismatch");
}

}  // namespace traintrace
