// What the rank did at a place that a finding names, so that no line is said to have made a call
// that it did not make.
#pragma once

#include <optional>
#include <string>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

struct PlaceRole {
  // Its thread was sampled there, or its last call was made there.
  bool is_newest = false;
  // "now at", "called ncclAllReduce at"; empty: where its last call was made, or not known.
  std::string words;
  // Where its last call was made, if that is another place.
  std::optional<CodePlace> last_call;
  // Where it was last seen, in a sample or else in a call, if that is another place.
  std::optional<CodePlace> last_seen;
};

PlaceRole role_of(const Run& run, const Finding& finding, const CodePlace& place);

}  // namespace traintrace
