#include "analyzer/detectors/detectors.h"

#include <algorithm>
#include <iterator>

#include "analyzer/detectors/each_detector.h"
#include "analyzer/detectors/framework_hints.h"
#include "analyzer/detectors/hang/claims.h"
#include "analyzer/detectors/memory/caught_shortages.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/detectors/range_lines.h"
#include "analyzer/detectors/trace/trace_finding.h"

namespace traintrace {
namespace {

constexpr NamedDetector<Detector> kDetectors[] = {
    TT_DETECTOR(find_missing_rank),       TT_DETECTOR(find_dead_rank),
    TT_DETECTOR(find_early_exit),         TT_DETECTOR(find_cross_communicator_deadlock),
    TT_DETECTOR(find_missing_send),       TT_DETECTOR(find_missing_receive),
    TT_DETECTOR(find_incomplete_init),    TT_DETECTOR(find_lost_records),
    TT_DETECTOR(find_missing_trace),      TT_DETECTOR(find_corrupt),
    TT_DETECTOR(find_unaligned_clocks),   TT_DETECTOR(find_version_skew),
    TT_DETECTOR(find_version_mismatch),   TT_DETECTOR(find_skipped_calls),
    TT_DETECTOR(find_swapped_order),      TT_DETECTOR(find_count_mismatch),
    TT_DETECTOR(find_root_mismatch),      TT_DETECTOR(find_empty_calls),
    TT_DETECTOR(find_stuck_hosts),        TT_DETECTOR(find_truncated),
    TT_DETECTOR(find_extra_calls),        TT_DETECTOR(find_operation_mismatch),
    TT_DETECTOR(find_type_mismatch),      TT_DETECTOR(find_reduction_mismatch),
    TT_DETECTOR(find_wrong_communicator), TT_DETECTOR(find_peers_against_collective),
    TT_DETECTOR(find_implicit_sync),      TT_DETECTOR(find_out_of_memory),
    TT_DETECTOR(find_stalled_devices),    TT_DETECTOR(find_blocked_streams),
    TT_DETECTOR(find_transport_stalls),   TT_DETECTOR(find_watchdog_aborts),
    TT_DETECTOR(find_launch_order_races), TT_DETECTOR(find_capture_divergence),
    TT_DETECTOR(find_not_resident),       TT_DETECTOR(find_same_order_deadlock),
    TT_DETECTOR(find_late_ranks),         TT_DETECTOR(find_creation_mismatch),
    TT_DETECTOR(find_destroy_mismatch),   TT_DETECTOR(find_use_after_abort),
    TT_DETECTOR(find_unpolled),           TT_DETECTOR(find_async_errors),
    TT_DETECTOR(find_color_collisions),   TT_DETECTOR(find_leaked),
    TT_DETECTOR(find_first_use_deadlock), TT_DETECTOR(find_unclosed_groups),
    TT_DETECTOR(find_group_mismatch),     TT_DETECTOR(find_exchange_mismatch),
    TT_DETECTOR(find_wrong_peer),         TT_DETECTOR(find_message_count_mismatch),
    TT_DETECTOR(find_message_order),      TT_DETECTOR(find_message_type_mismatch),
    TT_DETECTOR(find_message_cycle),      TT_DETECTOR(find_memory_faults),
    TT_DETECTOR(find_split_mismatch),     TT_DETECTOR(find_window_mismatch),
    TT_DETECTOR(find_missing_rendezvous), TT_DETECTOR(find_missing_from_host_groups),
    TT_DETECTOR(find_launch_races),       TT_DETECTOR(find_traces_elsewhere),
    TT_DETECTOR(find_forbidden),          TT_DETECTOR(find_settings_not_in_force),
    TT_DETECTOR(find_shared_gpus),        TT_DETECTOR(find_static_runtimes),
    TT_DETECTOR(find_unreachable),
};

}  // namespace

std::vector<Finding> find_all(const Run& run) {
  std::vector<Finding> findings;
  find_with_each(kDetectors, findings, run);
  run_stage("detector find_failed_ranks", [&] {
    std::vector<Finding> failed = find_failed_ranks(run, findings);
    std::move(failed.begin(), failed.end(), std::back_inserter(findings));
  });
  std::sort(findings.begin(), findings.end(), is_reported_before);
  run_stage("claims", [&] { withdraw_contradicted(run, findings); });
  run_stage("detector account_for_waiting", [&] { account_for_waiting(run, findings); });
  run_stage("open ranges", [&] { add_open_ranges(run, findings); });
  run_stage("leaks before hangs", [&] { put_leaks_before_hangs(findings); });
  run_stage("caught shortages", [&] { add_caught_shortages(run, findings); });
  run_stage("framework hints", [&] { add_framework_hints(run, findings); });
  if (std::none_of(findings.begin(), findings.end(),
                   [](const Finding& finding) { return finding.severity != Severity::kInfo; })) {
    run_stage("summary", [&] { summarise(run, findings); });
  }
  std::sort(findings.begin(), findings.end(), is_reported_before);
  return findings;
}

}  // namespace traintrace
