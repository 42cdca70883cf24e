// What is found in the values that were recorded of a run (TRAINTRACE_PAYLOAD).
#pragma once

#include <optional>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/numbers/numbers.h"
#include "analyzer/numbers/read_again.h"

namespace traintrace {

// One file each.
std::vector<Finding> find_first_nonfinite(const Run& run, const Numbers& numbers);
// overflow-skipped and scale-collapsed.
std::vector<Finding> find_skipped_steps(const Run& run, const Numbers& numbers);
std::vector<Finding> find_same_data(const Run& run, const Numbers& numbers);
std::vector<Finding> find_stuck_input(const Run& run, const Numbers& numbers);
// Of what NCCL's operations were given and gave.
std::vector<Finding> find_differing_results(const Run& run, const Numbers& numbers);
std::vector<Finding> find_wrong_deliveries(const Run& run, const Numbers& numbers);
std::vector<Finding> find_impossible_results(const Run& run, const Numbers& numbers);
std::vector<Finding> find_zero_gradients(const Run& run, const Numbers& numbers);
std::vector<Finding> find_norm_spikes(const Run& run, const Numbers& numbers);
// Of what the job itself fetched.
std::vector<Finding> find_ranks_apart(const Run& run, const Numbers& numbers);
std::vector<Finding> find_same_gradients(const Run& run, const Numbers& numbers);
std::vector<Finding> find_stuck_gradients(const Run& run, const Numbers& numbers);
// Numbers that were the same on all ranks, and shards that were the same on their replicas.
std::vector<Finding> find_replica_drift(const Run& run, const Numbers& numbers);
std::vector<Finding> find_shard_drift(const Run& run, const Numbers& numbers);

// The last values of some number that the job fetched again and again, and no others of it, are NaN
// or infinite: it may have ended for that.
bool ended_at_nonfinite(const Numbers& numbers);
// What find_first_nonfinite says where operations were checked; none: they show no such data.
std::optional<Finding> first_nonfinite_input(const Run& run, const Numbers& numbers,
                                             bool has_scaler);
// From some operation on sums of gradients are not finite, and that one's inputs are.
std::optional<Finding> overflowed_sum(const Run& run, const Checks& checks);
// The job reads the flag of a loss scaler, which skips steps whose gradients are not finite.
bool has_loss_scaler(const Numbers& numbers);
// It skipped the last kFewestNonfinite steps.
bool skips_at_last(const Numbers& numbers);
// Ranks that communicate among themselves alone may share their data rightly: those of a tensor,
// context or pipeline parallel group, and the replicas of a shard.  So may the stages of a pipeline
// that send one another messages on a larger communicator, also by way of ranks that are not among
// `others`, which have data of their own.
bool may_share_data(const Run& run, const Ranks& ranks, const Ranks& others);

// Of a run that goes on with the work of another one, which is called `before`.
std::vector<Finding> find_read_again(const std::string& before, const std::vector<ReadAgain>& all);

// Of a rank that ended as soon as it had seen that its numbers are not finite:
// numeric.first-nonfinite is the cause, and what is found of its end a consequence.
void put_nonfinite_before_ends(const Run& run, const Numbers& numbers,
                               std::vector<Finding>& findings);

// What all of them find.
std::vector<Finding> find_in_numbers(const Run& run, const Numbers& numbers);

// From the start of the run; 0 if it has no such value.
int64_t since_ns(const Finding& finding);

// With severity as catalogued.
Finding numeric_finding(std::string_view code);

}  // namespace traintrace
