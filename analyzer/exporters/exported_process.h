// What exports of whole runs are given of each process.
#pragma once

#include <string>

#include "analyzer/model/ids.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

struct ExportedProcess {
  std::string name;
  int pid = 0;
  Ranks ranks;                          // that it holds
  const ProcessTrace* trace = nullptr;  // null: another tool's profile
  const Timeline* timeline = nullptr;   // null: what its GPU did and when is not known
};

}  // namespace traintrace
