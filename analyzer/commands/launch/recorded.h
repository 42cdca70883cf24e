// What `run` says at its end: how much was recorded, where, and what to type next.
#pragma once

#include <cstdint>
#include <string>

namespace traintrace {

// Traces that processes of this host began at `since_ns` (CLOCK_REALTIME) or later, in `folder` and
// where traces go that cannot be put there.  `program`: what was started, as it was typed.
std::string recorded_text(const std::string& folder, int64_t since_ns, const std::string& program);

// Which of those could not be packed into the folder of TRAINTRACE_COLLECT, and what to type then.
// Empty: all of them were, or nobody wanted it.  Waits for keepers, which pack at the end of a
// process, but not for a file server that is gone.
std::string not_collected_text(const std::string& folder, int64_t since_ns);

}  // namespace traintrace
