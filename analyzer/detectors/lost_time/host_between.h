// What the host did while the GPU had nothing to do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/detectors/lost_time/latency_finding.h"

namespace traintrace {

struct HostPlace {
  std::string site;  // "train.py(118): train_step"
  int64_t percent;   // of the idle time, or more
};
// Where the launching thread was for half of the time of these gaps, or more, as far as anybody
// looked.
std::optional<HostPlace> host_place_between(const Profile& profile, const DeviceProfile& device,
                                            const std::vector<IdleSite>& sites);

// By the host's calls alone, a line of evidence: for how long the host was busy `when`, at those of
// `sites`, and where most of that time, which then is one of the places.
void add_host_between(const Profile& profile, const DeviceProfile& device, std::string_view when,
                      const std::vector<IdleSite>& sites, Finding& finding);

}  // namespace traintrace
