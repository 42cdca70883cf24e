// What the host did while the GPU had nothing to do, where only its calls were recorded.
#pragma once

#include <string_view>
#include <vector>

#include "analyzer/detectors/lost_time/latency_finding.h"

namespace traintrace {

// A line of evidence: for how long the host was busy `when`, at those of `sites`, and where most of
// that time, which then is one of the places.
void add_host_between(const Profile& profile, const DeviceProfile& device, std::string_view when,
                      const std::vector<IdleSite>& sites, Finding& finding);

}  // namespace traintrace
