// A program that runs in this one's place.
#pragma once

#include <string>
#include <vector>

namespace traintrace {

// Runs it to its end, handing on signals that others send to this process.  Its status; 128 + N if
// signal N ended it; 127 if there is no such program, 126 if it cannot be run.
int run_child(const std::vector<std::string>& program);

}  // namespace traintrace
