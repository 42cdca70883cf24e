// What is said of sends and receives that do not belong together.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Without who is to blame.
std::string message_text(const Run& run, const Divergence& one);
// The same of one that departs from what its twins did (match/departures.h).
std::string departed_message_text(const Run& run, const Divergence& one);

// Evidence: each message, with what both sides said of it.
std::vector<std::string> message_lines(const Run& run, const Divergence& one);

}  // namespace traintrace
