// What was seen on several hosts, put together.
#pragma once

#include <string>
#include <vector>

#include "analyzer/live/job_now.h"

namespace traintrace {

// What was seen here, as text to be sent.  `problem`: why there is nothing; else empty.
std::string packed(const JobNow& now, const std::string& problem);

// A process that several have seen is kept once, as the host that it runs on has seen it.
JobNow unpacked(const std::vector<std::string>& texts);

}  // namespace traintrace
