// What Xid numbers mean: telemetry/xids.def.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/detectors/finding.h"

namespace traintrace {

Severity severity_of_xid(int64_t xid);
// "Xid 79 (GPU has fallen off the bus)"
std::string xid_text(int64_t xid);

}  // namespace traintrace
