#include "analyzer/detectors/detectors.h"

#include <algorithm>
#include <tuple>

#include "analyzer/detectors/framework_hints.h"
#include "analyzer/detectors/memory_detectors.h"

namespace traintrace {
namespace {

constexpr Detector kDetectors[] = {
    find_missing_rank,       find_dead_rank,
    find_early_exit,         find_cross_communicator_deadlock,
    find_missing_send,       find_missing_receive,
    find_incomplete_init,    find_lost_records,
    find_missing_trace,      find_corrupt,
    find_unaligned_clocks,   find_version_skew,
    find_version_mismatch,   find_skipped_calls,
    find_swapped_order,      find_count_mismatch,
    find_root_mismatch,      find_empty_calls,
    find_stuck_hosts,        find_truncated,
    find_extra_calls,        find_operation_mismatch,
    find_type_mismatch,      find_reduction_mismatch,
    find_wrong_communicator, find_peers_against_collective,
    find_implicit_sync,      find_out_of_memory,
    find_stalled_devices,    find_blocked_streams,
    find_transport_stalls,   find_watchdog_aborts,
    find_launch_order_races, find_capture_divergence,
    find_not_resident,       find_same_order_deadlock,
    find_late_ranks,         find_creation_mismatch,
    find_destroy_mismatch,   find_use_after_abort,
    find_unpolled,           find_async_errors,
    find_color_collisions,   find_leaked,
    find_first_use_deadlock, find_unclosed_groups,
    find_group_mismatch,     find_exchange_mismatch,
    find_wrong_peer,         find_message_count_mismatch,
    find_message_order,      find_message_type_mismatch,
    find_message_cycle,      find_memory_faults,
    find_split_mismatch,     find_window_mismatch,
    find_missing_rendezvous, find_launch_races,
};

auto order(const Finding& finding) {
  return std::tuple(!finding.root, finding.severity, finding.code, finding.sequence.value_or(0),
                    finding.communicator ? finding.communicator->name : std::string(),
                    finding.communicator ? finding.communicator->id : CommunicatorId(),
                    finding.culprits, finding.title);
}

}  // namespace

std::vector<Finding> find_all(const Run& run) {
  std::vector<Finding> findings;
  for (const Detector detector : kDetectors) {
    std::vector<Finding> found = detector(run);
    std::move(found.begin(), found.end(), std::back_inserter(findings));
  }
  add_framework_hints(run, findings);
  if (std::none_of(findings.begin(), findings.end(),
                   [](const Finding& finding) { return finding.severity != Severity::kInfo; })) {
    findings.push_back(summarise(run));
  }
  std::sort(findings.begin(), findings.end(),
            [](const Finding& a, const Finding& b) { return order(a) < order(b); });
  return findings;
}

}  // namespace traintrace
