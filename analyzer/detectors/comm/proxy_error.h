#pragma once

#include <span>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/importers/logs/testimony.h"
#include "analyzer/model/run.h"

namespace traintrace {

// A comm.async-error of one rank, of which NCCL's log says that the rank's proxy thread ended with
// this very error, becomes a comm.proxy-error: with the peer and the reason.  Culprits and
// certainty stay.
void name_proxy_errors(const Run& run, std::span<const Testimony> testimonies,
                       std::vector<Finding>& findings);

}  // namespace traintrace
