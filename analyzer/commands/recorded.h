// What `run` says at its end: how much was recorded, where, and what to type next.
#pragma once

#include <cstdint>
#include <string>

namespace traintrace {

// Traces that processes of this host began at `since_ns` (CLOCK_REALTIME) or later, in `folder` and
// where traces go that cannot be put there.
std::string recorded_text(const std::string& folder, int64_t since_ns);

}  // namespace traintrace
