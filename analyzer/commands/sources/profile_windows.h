// Which files of PyTorch's profiler belong together, and of which rank each is.
#pragma once

#include <string>
#include <vector>

#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

// What one job did over one time, at most one trace of a rank.
struct ProfileWindow {
  std::vector<KinetoTrace> traces;
  TimeNs start = 0;  // since the epoch
  std::string name;  // of its own among those that were made together
};

struct ProfileBounds {
  TimeNs start = 0;  // since the epoch; of the GPU's work
  TimeNs end = 0;
};
ProfileBounds bounds_of(const Timeline& timeline);

// By their starts.  A rank that was recorded twice was recorded in two windows.  What does not say
// its rank belongs to those at the same time that it meets in collectives; it gets its rank where
// only one is left.  A trace of which nothing is known is a job of its own.
std::vector<ProfileWindow> windows_of(std::vector<KinetoTrace> traces);

}  // namespace traintrace
