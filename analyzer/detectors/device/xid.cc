// Errors that the driver reported of a rank's GPU while the rank was there.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/device/telemetry_findings.h"
#include "analyzer/detectors/device/xid_text.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

struct RankXid {
  const RankGpu* gpu;
  TimeNs time;
};

using ByNumber = std::map<int64_t, std::vector<RankXid>>;

std::string when_text(const RankXid& event) {
  const TimeNs before_end = event.gpu->to - event.time;
  const double seconds = 1e-9 * static_cast<double>(std::abs(before_end));
  return before_end >= 0
             ? fmt::format("{:.1f} s before the last sign of life of {}", seconds,
                           ranks_text(event.gpu->ranks))
             : fmt::format("{:.1f} s after the end of {}", seconds, ranks_text(event.gpu->ranks));
}

Finding finding_about(int64_t xid, const std::vector<RankXid>& events) {
  Finding finding;
  finding.code = "device.xid";
  finding.severity = severity_of_xid(xid);
  Ranks ranks;
  for (const RankXid& event : events) {
    std::for_each(event.gpu->ranks.begin(), event.gpu->ranks.end(),
                  [&](Rank rank) { insert(ranks, rank); });
    if (finding.evidence.size() < kEvidenceLines) {
      finding.evidence.push_back(
          fmt::format("{}: {}", gpu_text(*event.gpu->history), when_text(event)));
    }
  }
  finding.title = fmt::format("the driver reported {} on the GPU{} of {}", xid_text(xid),
                              ranks.size() == 1 ? "" : "s", ranks_text(ranks));
  finding.culprits = finding.severity == Severity::kInfo ? Ranks{} : ranks;
  finding.sides = {ranks};
  finding.values = {{"xid", xid}, {"event_count", static_cast<int64_t>(events.size())}};
  finding.advice =
      finding.severity == Severity::kInfo
          ? "a program's own fault, most likely: rerun that rank with CUDA_LAUNCH_BLOCKING=1 or "
            "compute-sanitizer"
          : "drain the node; see `dmesg -T | grep -i xid` and NVIDIA's table of Xid errors for "
            "what "
            "it needs: a reset, a restart or a new GPU";
  return finding;
}

}  // namespace

std::vector<Finding> find_xids(const std::vector<RankGpu>& gpus) {
  ByNumber by_number;
  for (const RankGpu& gpu : gpus) {
    for (const XidEvent& event : gpu.history->xids) {
      if (event.time >= gpu.from && event.time <= gpu.to + kXidAfterNs) {
        by_number[event.xid].push_back({&gpu, event.time});
      }
    }
  }
  std::vector<Finding> findings;
  findings.reserve(by_number.size());
  for (const auto& [xid, events] : by_number) {
    findings.push_back(finding_about(xid, events));
  }
  return findings;
}

}  // namespace traintrace
