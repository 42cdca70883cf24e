// Operation-level traces of pipeline- and data-parallel jobs: CSV with a header that names at least
// rank, stage, step, operation, start and end, in any order.
#pragma once

#include <string>
#include <vector>

#include "analyzer/reader/result.h"
#include "analyzer/timeline/what_if/slowdown.h"

namespace traintrace {

// By the first bytes of a file; false where it cannot be read.
bool looks_like_operations_csv(const std::string& path);

struct OperationsFile {
  std::vector<StageOperation> operations;
  std::vector<ReadError> errors;  // lines that were left out, at most some of them
};

// Times are seconds where one of them has a decimal point, else ns.  The error says file, line and
// what was expected.
Result<OperationsFile> read_operations_csv(const std::string& path);

}  // namespace traintrace
