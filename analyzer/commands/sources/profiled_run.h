// Files of PyTorch's profiler, as one run.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/reader/result.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {

struct ProfiledRun {
  Run run;
  Profile profile;
};

// A rank that was recorded twice was recorded in two windows: takes that called `name`, else the
// last.
Result<ProfiledRun> read_profiled_run(const std::vector<std::string>& files,
                                      const std::string& name = "");

// Of a profile in which there is none.
ReadError without_gpu_work(const std::string& file);

}  // namespace traintrace
