// Sends and receives, by what the framework said of the kernels that do them.
#pragma once

#include <string_view>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Whether the operation moves data from one rank to another: "send", "recv".
bool is_send(std::string_view operation);
bool is_receive(std::string_view operation);

// Adds to Timeline::messages where it has none, and both its rank and the peers are known.  Ranks
// in them are those of the job.
void add_noted_messages(Timeline& timeline);

}  // namespace traintrace
