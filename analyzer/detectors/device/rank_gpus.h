// Which GPU's telemetry is whose: joined by UUID, else by host and PCI bus id, never by number.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/telemetry/gpu_history.h"

namespace traintrace {

// A GPU that ranks of the run work on.
struct RankGpu {
  const GpuHistory* history;
  Ranks ranks;
  // From the first sign of life of its ranks to the last, by the clock of its host; and what was
  // added to that in the run.
  TimeNs from = 0, to = 0, moved = 0;
  bool running = false;  // one of these ranks still runs
  bool recent = false;   // `from` is not their beginning: only the last of their time is meant
};

// By rank.  GPUs of which there are no readings within the time of their ranks are there, too: an
// Xid may be all that is known.
std::vector<RankGpu> gpus_of_ranks(const Run& run, const TelemetryRecord& telemetry);

// Those whose ranks still run, and have for longer, with the last kRecentNs of their time.
std::vector<RankGpu> recent_of(const std::vector<RankGpu>& gpus);

// "the time", "the last 60 s"
std::string time_text(const RankGpu& gpu);

// "GPU-1f2e3d4c-.. (0000:1b:00.0) on node17"
std::string gpu_text(const GpuHistory& gpu);

// The middle of the other GPUs' values, where there are any that are known; else 0.
double median_of_others(const std::vector<std::optional<double>>& values, size_t but);

}  // namespace traintrace
