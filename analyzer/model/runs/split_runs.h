// Which runs there are among the traces that were given.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

struct RunInput {
  OtherRun about;                       // as the others see it; not judged yet
  std::vector<ProcessTrace> processes;  // its ranks, by host, pid and start
  // Of damaged traces of which nothing tells any more whose they are: one of its ranks, most
  // likely.
  std::vector<ReadError> damaged = {};
};

// By start.  The same whatever the order of `traces`.
std::vector<RunInput> split_runs(std::vector<ProcessTrace> traces);

}  // namespace traintrace
