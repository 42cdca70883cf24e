// A rank used another communicator than the others.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_wrong_communicator(const Run& run) {
  return find_diverged(run, {DivergenceKind::kOtherCommunicator}, "collective.wrong-communicator");
}

}  // namespace traintrace
