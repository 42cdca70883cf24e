// What findings about checked operations have in common (numbers/checks.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"
#include "analyzer/numbers/checks.h"

namespace traintrace {

// With severity as catalogued, and communicator, sequence, operation and place of `check`.
Finding check_finding(const Run& run, const Checks& checks, std::string_view code,
                      const Check& check);

// "ncclAllReduce of 1048576 float32 on dp".
std::string bucket_text(const Run& run, const Check& check);

// "17 NaN and 2 Inf"; what there is none of is left out.
std::string nonfinite_text(uint64_t nans, uint64_t infinities);

// Where these ranks called it, of those that recorded anything of it.
std::vector<CodePlace> places_of(const Checks& checks, const CheckedOperation& operation,
                                 const Ranks& ranks);

Ranks ranks_of_checks(std::span<const Check> checks);

struct RankTally {
  Rank rank;
  WholeTally tally;
};
// What all members gave; empty: some of it is missing, or was left out.
std::vector<RankTally> complete_inputs(const Run& run, const Checks& checks,
                                       const CheckedOperation& operation);

// Sums of many real numbers, as gradients are.
bool is_of_gradients(const Checks& checks, const CheckedBucket& bucket);
// Those, by communicator.
std::map<uint32_t, std::vector<const CheckedBucket*>> gradient_buckets(const Checks& checks);

// How many operations of that communicator and sort agree, so that they were compared.
int64_t compared_count(const Checks& checks, const Check& like);

// All members' inputs, or outputs, are there; each has as many parts as it says.
bool is_complete(const Run& run, std::span<const Check> side);

}  // namespace traintrace
