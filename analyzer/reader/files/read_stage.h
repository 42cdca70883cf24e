// Files one after the other, each a stage of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analyzer/isolation/silence.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/reader/result.h"

namespace traintrace {

// Where we fail ourselves, nothing of the file can be used.
inline ReadError internal_read_error(const std::string& path) {
  return {path, 0, "cannot be read for a defect of traintrace (internal.error)", true, false, true};
}

inline void read_stage(const std::string& path, std::vector<ReadError>& errors,
                       const std::function<void()>& read) {
  const std::string stage = "read " + path;
  if (!run_stage(stage, read)) {
    errors.push_back(was_silent(stage) ? ReadError{path, 0, kIsSilent, true}
                                       : internal_read_error(path));
  }
}

}  // namespace traintrace
