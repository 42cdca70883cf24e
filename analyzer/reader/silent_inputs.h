// Inputs on a file server that is gone: whoever looks at one never comes back.
#pragma once

#include <string>
#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

// Asks each of what the user named before anybody else looks at it.  Those that do not answer are
// taken out of `named`, and are among the errors of every read_traces() from then on.
void take_out_silent(std::vector<std::string>& named);

const std::vector<ReadError>& silent_inputs();

// The same of what a folder lists, once a file has been met that does not answer (silence.h).
void take_out_silent_files(std::vector<std::string>& paths);

// That `path` was taken out by either.
bool is_silent_file(const std::string& path);

}  // namespace traintrace
