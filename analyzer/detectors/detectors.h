// All detectors.  Each looks at a run and at nothing else, and says what it has found.
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

using Detector = std::vector<Finding> (*)(const Run&);

// One file each, named as its code: collective/missing_rank.cc.
std::vector<Finding> find_missing_rank(const Run& run);
std::vector<Finding> find_dead_rank(const Run& run);
std::vector<Finding> find_early_exit(const Run& run);
std::vector<Finding> find_skipped_calls(const Run& run);
std::vector<Finding> find_extra_calls(const Run& run);
std::vector<Finding> find_swapped_order(const Run& run);
std::vector<Finding> find_operation_mismatch(const Run& run);
std::vector<Finding> find_count_mismatch(const Run& run);
std::vector<Finding> find_type_mismatch(const Run& run);
std::vector<Finding> find_root_mismatch(const Run& run);
std::vector<Finding> find_reduction_mismatch(const Run& run);
std::vector<Finding> find_empty_calls(const Run& run);
std::vector<Finding> find_wrong_communicator(const Run& run);
std::vector<Finding> find_peers_against_collective(const Run& run);
std::vector<Finding> find_missing_send(const Run& run);
std::vector<Finding> find_missing_receive(const Run& run);
std::vector<Finding> find_incomplete_init(const Run& run);
std::vector<Finding> find_cross_communicator_deadlock(const Run& run);
std::vector<Finding> find_first_use_deadlock(const Run& run);
std::vector<Finding> find_unclosed_groups(const Run& run);
std::vector<Finding> find_group_mismatch(const Run& run);
std::vector<Finding> find_exchange_mismatch(const Run& run);
std::vector<Finding> find_wrong_peer(const Run& run);
std::vector<Finding> find_message_count_mismatch(const Run& run);
std::vector<Finding> find_message_type_mismatch(const Run& run);
std::vector<Finding> find_message_order(const Run& run);
std::vector<Finding> find_message_cycle(const Run& run);
std::vector<Finding> find_creation_mismatch(const Run& run);
std::vector<Finding> find_destroy_mismatch(const Run& run);
std::vector<Finding> find_use_after_abort(const Run& run);
std::vector<Finding> find_unpolled(const Run& run);
std::vector<Finding> find_async_errors(const Run& run);
std::vector<Finding> find_color_collisions(const Run& run);
std::vector<Finding> find_leaked(const Run& run);
std::vector<Finding> find_split_mismatch(const Run& run);
std::vector<Finding> find_missing_rendezvous(const Run& run);
std::vector<Finding> find_missing_from_host_groups(const Run& run);
std::vector<Finding> find_launch_races(const Run& run);
std::vector<Finding> find_window_mismatch(const Run& run);
std::vector<Finding> find_version_mismatch(const Run& run);
std::vector<Finding> find_stuck_hosts(const Run& run);
std::vector<Finding> find_implicit_sync(const Run& run);
std::vector<Finding> find_out_of_memory(const Run& run);
std::vector<Finding> find_stalled_devices(const Run& run);
std::vector<Finding> find_blocked_streams(const Run& run);
std::vector<Finding> find_transport_stalls(const Run& run);
std::vector<Finding> find_not_resident(const Run& run);
std::vector<Finding> find_same_order_deadlock(const Run& run);
std::vector<Finding> find_watchdog_aborts(const Run& run);
std::vector<Finding> find_launch_order_races(const Run& run);
std::vector<Finding> find_capture_divergence(const Run& run);
std::vector<Finding> find_late_ranks(const Run& run);
std::vector<Finding> find_lost_records(const Run& run);
std::vector<Finding> find_missing_trace(const Run& run);
std::vector<Finding> find_truncated(const Run& run);
std::vector<Finding> find_corrupt(const Run& run);
std::vector<Finding> find_unaligned_clocks(const Run& run);
std::vector<Finding> find_version_skew(const Run& run);
std::vector<Finding> find_traces_elsewhere(const Run& run);
std::vector<Finding> find_forbidden(const Run& run);
std::vector<Finding> find_settings_not_in_force(const Run& run);
std::vector<Finding> find_shared_gpus(const Run& run);
std::vector<Finding> find_static_runtimes(const Run& run);

// These look at what the others have found, too.
std::vector<Finding> find_failed_ranks(const Run& run, const std::vector<Finding>& findings);
// Each rank that waits is a victim of something that was found, or in run.unexplained.
void account_for_waiting(const Run& run, std::vector<Finding>& findings);

// For a run in which nothing is found at warning or above: adds run.healthy or run.in-progress, or
// makes warnings of what says that ranks were not seen, where all that were seen ended normally.
void summarise(const Run& run, std::vector<Finding>& findings);

// What all of them find, in the order of the report: roots, severity, code, sequence.
std::vector<Finding> find_all(const Run& run);

}  // namespace traintrace
