// Who is to blame for a hang.
#pragma once

#include <string_view>

#include "analyzer/detectors/hang/hang_finding.h"

namespace traintrace {

// Its roots, if they are a minority; else nobody, and the title ends with why: `tie`.
void blame_minority(const Hang& hang, Finding& finding,
                    std::string_view tie = "no majority, so which side is wrong is undetermined");

// The same of roots that have not come, or have ended: of two ranks the one for which the other
// waits, if that one did as in each earlier step.
void blame_missing_roots(
    const Run& run, const Hang& hang, Finding& finding,
    std::string_view tie = "no majority, so which side is wrong is undetermined");

}  // namespace traintrace
