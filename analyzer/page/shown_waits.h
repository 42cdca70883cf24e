// Which waits the pictures of the page show, all of them the same.
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

struct ShownWaits {
  std::vector<Wait> waits;
  std::vector<Stall> stalls;  // all have entered these, and they do not end
  bool of_verdict = false;    // it is about them: who is in one waits, and does not move
};

// Those of hangs; where the verdict is that it may be one, those that it is about as well.
ShownWaits shown_waits(const Run& run, const Finding* leading);

}  // namespace traintrace
