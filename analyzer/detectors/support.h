// What other tools say of the ranks that findings are about.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/importers/logs/testimony.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Whom a witness is; nothing where several could be.
std::optional<Rank> rank_of(const Run& run, const Witness& witness);

// As evidence: neither code nor culprits change.  What ended a culprit from outside is in the
// title.
void add_support(const Run& run, std::span<const Testimony> testimonies,
                 std::vector<Finding>& findings);

// Where nothing was recorded: a process for each that somebody says something of, fit for build_run
// and for supported_finding, and for no detector.
std::vector<ProcessTrace> processes_of(std::span<const Testimony> testimonies);
Finding supported_finding(std::span<const Testimony> testimonies);

}  // namespace traintrace
