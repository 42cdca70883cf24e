// Servers that have debug information (debuginfod, elfutils).  The environment of a job may name
// some, DEBUGINFOD_URLS, for its debugger: that is no order to us to tell them what we look at.
#pragma once

namespace traintrace {

// From now on elfutils asks no server, unless allow_debuginfod() follows.
void forbid_debuginfod();
// Those that the environment named when they were forbidden.
void allow_debuginfod();

}  // namespace traintrace
