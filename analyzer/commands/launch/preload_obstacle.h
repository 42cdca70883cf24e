// Why the loader preloads no library into a program.
#pragma once

#include <string>

namespace traintrace {

// "is linked statically, so no library can be preloaded into it"; empty: nothing is known to
// prevent it.  `program` is looked for as execvp does.
std::string preload_obstacle(const std::string& program);

}  // namespace traintrace
