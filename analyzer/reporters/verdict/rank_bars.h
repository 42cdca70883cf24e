// A bar for each GPU: what its time went to.
#pragma once

#include <string>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"
#include "analyzer/text/screen.h"

namespace traintrace {

// Empty unless the finding is about lost time and the run has timelines.
std::string rank_bars(const Run& run, const Finding& finding, const Screen& screen);

}  // namespace traintrace
