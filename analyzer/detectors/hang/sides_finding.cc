#include "analyzer/detectors/hang/sides_finding.h"

#include "analyzer/detectors/catalogue.h"

namespace traintrace {

Finding sides_finding(const Communicator& communicator, const Sides& sides, std::string_view code) {
  Finding finding;
  finding.code = code;
  finding.severity = catalogue_row(code)->severity;
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  for (const auto& [what, ranks] : sides) {
    finding.sides.push_back(ranks);
  }
  return finding;
}

}  // namespace traintrace
