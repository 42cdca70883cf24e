// In an all-to-all one rank sends what the other does not expect: seen message by message where it
// is one of sends and receives, else by what all of them together send and expect.
#include <iterator>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"
#include "analyzer/detectors/hang/stall_finding.h"
#include "analyzer/model/exchanges.h"

namespace traintrace {

std::vector<Finding> find_exchange_mismatch(const Run& run) {
  constexpr std::string_view kCode = "collective.alltoall-mismatch";
  std::vector<Finding> findings = find_diverged(run, {DivergenceKind::kExchange}, kCode);
  std::vector<Finding> stalled = find_stalled(run, kCode, [&](const RootStall& root) {
    return uneven_exchange(run, root.stall).has_value();
  });
  std::move(stalled.begin(), stalled.end(), std::back_inserter(findings));
  return findings;
}

}  // namespace traintrace
