// What exports of whole runs are given of each process.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/ids.h"
#include "analyzer/numbers/curves.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Numbers that one rank recorded at one line of code; owned by whoever calls the export.
struct ExportedNumbers {
  const std::string* name;  // CurveGroup::name
  const NumberCurve* curve;
};

struct ExportedProcess {
  std::string name;
  int pid = 0;
  Ranks ranks;                          // that it holds
  const ProcessTrace* trace = nullptr;  // null: another tool's profile
  const Timeline* timeline = nullptr;   // null: what its GPU did and when is not known
  std::vector<ExportedNumbers> numbers = {};
};

// Of one process (Run::processes); they point into `groups`.
std::vector<ExportedNumbers> exported_numbers(const std::vector<CurveGroup>& groups,
                                              size_t process);

}  // namespace traintrace
