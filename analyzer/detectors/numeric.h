// What is found in the values that were recorded of a run (TRAINTRACE_PAYLOAD).
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/numbers/numbers.h"

namespace traintrace {

// One file each.
std::vector<Finding> find_first_nonfinite(const Run& run, const Numbers& numbers);
// overflow-skipped and scale-collapsed.
std::vector<Finding> find_skipped_steps(const Run& run, const Numbers& numbers);
std::vector<Finding> find_same_data(const Run& run, const Numbers& numbers);
std::vector<Finding> find_stuck_input(const Run& run, const Numbers& numbers);

// What all of them find.
std::vector<Finding> find_in_numbers(const Run& run, const Numbers& numbers);

// With severity as catalogued.
Finding numeric_finding(std::string_view code);

}  // namespace traintrace
