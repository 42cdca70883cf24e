// What the GPUs' own counters say: findings of their own, the cause of others, and evidence beside
// them.  Slowness alone is never a reason to blame hardware.
#pragma once

#include <vector>

#include "analyzer/detectors/device/rank_gpus.h"
#include "analyzer/detectors/finding.h"

namespace traintrace {

// One file each, named as its code.
std::vector<Finding> find_throttled(const std::vector<RankGpu>& gpus);
std::vector<Finding> find_xids(const std::vector<RankGpu>& gpus);
std::vector<Finding> find_memory_errors(const std::vector<RankGpu>& gpus);
std::vector<Finding> find_degraded_links(const std::vector<RankGpu>& gpus);

// What the counters say of why the culprits of latency.slow-device are slow.
void add_causes(const std::vector<RankGpu>& gpus, std::vector<Finding>& findings);
// Xids and uncorrected errors of ranks that died, stall or are waited for.
void add_hardware_evidence(const Run& run, const std::vector<RankGpu>& gpus,
                           std::vector<Finding>& findings);

// All of that.  `findings` are those of the run; their order becomes that of the report.
void add_telemetry(const Run& run, const TelemetryRecord& telemetry,
                   std::vector<Finding>& findings);

}  // namespace traintrace
