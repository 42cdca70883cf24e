// The recorded values of a run, from the traces of its processes.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"
#include "analyzer/numbers/numbers.h"

namespace traintrace {

// Of those that recorded any.
Numbers numbers_of(const Run& run);
// The same; none, where there is so much to read that all else would take less.
std::optional<Numbers> numbers_if_few(const Run& run);

// What they show (detectors/numeric/numeric.h); they stay in the run.  Nothing, where there is too
// much to read.
void add_numeric(Run& run, std::vector<Finding>& findings);

}  // namespace traintrace
