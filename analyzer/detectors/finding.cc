#include "analyzer/detectors/finding.h"

#include <tuple>

namespace traintrace {
namespace {

// What is left to tell two findings apart: the bytes of a report do not depend on the order of its
// inputs.
auto identity(const Finding& finding) {
  return std::tuple(finding.code, finding.sequence.value_or(0),
                    finding.communicator ? finding.communicator->name : std::string(),
                    finding.communicator ? finding.communicator->id : CommunicatorId(),
                    finding.culprits, finding.title);
}

auto weight(const Finding& finding) {
  return std::tuple(finding.culprits.empty(), finding.certainty, ~finding.victims.size(),
                    finding.severity);
}

}  // namespace

std::optional<int64_t> gain_ns(const Finding& finding) {
  for (const auto& [key, value] : finding.values) {
    if (key == "gain_ns") {
      return value;
    }
  }
  return std::nullopt;
}

bool is_reported_before(const Finding& a, const Finding& b) {
  // What is mentioned only leads nobody to anything.
  const auto leads = [](const Finding& one) { return one.root && one.severity != Severity::kInfo; };
  if (leads(a) != leads(b)) {
    return leads(a);
  }
  if (!leads(a) && a.severity != b.severity) {
    return a.severity < b.severity;
  }
  if (a.severity != Severity::kInfo && weight(a) != weight(b)) {
    return weight(a) < weight(b);
  }
  return identity(a) < identity(b);
}

}  // namespace traintrace
