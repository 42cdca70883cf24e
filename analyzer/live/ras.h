// What NCCL itself says of a running job: its RAS service (from 2.24 on), one thread per process,
// listens on a port of the host.
#pragma once

#include <string>
#include <vector>

namespace traintrace {

// `address`: NCCL_RAS_ADDR of the job, empty for the standard one.  The lines of its status; none
// where nobody answers within two seconds.
std::vector<std::string> ask_ras(const std::string& address);

}  // namespace traintrace
