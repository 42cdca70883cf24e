// Who is to blame for a hang.
#pragma once

#include <string_view>

#include "analyzer/detectors/hang/hang_finding.h"

namespace traintrace {

// Its roots, if they are a minority; else nobody, and the title ends with why: `tie`.
void blame_roots(const Hang& hang, Finding& finding,
                 std::string_view tie = "no majority, so which side is wrong is undetermined");

}  // namespace traintrace
