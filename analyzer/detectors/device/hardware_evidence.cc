// Xids and memory errors beside findings about the ranks that had them, and all findings of
// telemetry put together.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "analyzer/detectors/device/memory_errors.h"
#include "analyzer/detectors/device/telemetry_findings.h"
#include "analyzer/detectors/device/xid_text.h"
#include "analyzer/detectors/each_detector.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using TelemetryDetector = std::vector<Finding> (*)(const std::vector<RankGpu>&);
constexpr NamedDetector<TelemetryDetector> kTelemetryDetectors[] = {
    TT_DETECTOR(find_throttled),
    TT_DETECTOR(find_xids),
    TT_DETECTOR(find_memory_errors),
    TT_DETECTOR(find_degraded_links),
};

bool is_of_telemetry(std::string_view code) {
  return code == "device.throttled" || code == "device.xid" || code == "device.ecc" ||
         code == "device.link-degraded";
}

bool is_hang_or_death(const Finding& finding) {
  return finding.severity == Severity::kError && !is_of_telemetry(finding.code) &&
         !finding.code.starts_with("memory.");
}

// Where no rank is blamed, any of them may have it.
bool is_about(const Finding& finding, Rank rank) {
  return contains(finding.culprits, rank) ||
         (finding.culprits.empty() &&
          (contains(finding.victims, rank) ||
           std::any_of(finding.sides.begin(), finding.sides.end(),
                       [&](const Ranks& side) { return contains(side, rank); })));
}

std::vector<std::string> hardware_lines(const Run& run, const RankGpu& gpu) {
  std::vector<std::string> lines;
  const std::string whose = fmt::format("telemetry of {}", ranks_text(gpu.ranks));
  for (const XidEvent& event : gpu.history->xids) {
    if (event.time >= gpu.from && event.time <= gpu.to + kXidAfterNs &&
        severity_of_xid(event.xid) != Severity::kWarning) {
      lines.push_back(fmt::format(
          "{}: {} at +{:.3f} s; {}", whose, xid_text(event.xid),
          1e-9 * static_cast<double>(elapsed(elapsed(gpu.moved, run.start), event.time)),
          gpu_text(*gpu.history)));
    }
  }
  if (const int64_t errors = memory_errors_of(gpu).uncorrected; errors > 0) {
    lines.push_back(fmt::format("{}: {} uncorrected ECC error{} during the run; {}", whose, errors,
                                errors == 1 ? "" : "s", gpu_text(*gpu.history)));
  }
  constexpr size_t kMostLines = 4;
  lines.resize(std::min(lines.size(), kMostLines));
  return lines;
}

// Whether findings with its code already name its culprits.
bool is_told(const std::vector<Finding>& findings, const Finding& recent) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& each) {
    return each.code == recent.code &&
           std::all_of(recent.culprits.begin(), recent.culprits.end(),
                       [&](Rank rank) { return contains(each.culprits, rank); });
  });
}

// What goes on now, while the job runs, and is too little of all its time to be found in that.
void add_recent(const std::vector<RankGpu>& gpus, std::vector<Finding>& own) {
  constexpr NamedDetector<TelemetryDetector> kOfTime[] = {TT_DETECTOR(find_throttled),
                                                          TT_DETECTOR(find_degraded_links)};
  std::vector<Finding> recent;
  find_with_each(kOfTime, recent, recent_of(gpus));
  std::erase_if(recent, [&](const Finding& finding) { return is_told(own, finding); });
  std::move(recent.begin(), recent.end(), std::back_inserter(own));
}

bool is_summary_of_run(const Finding& finding) {
  return finding.code == "run.healthy" || finding.code == "run.in-progress";
}

// Which other findings are about a rank whose GPU was held down.
void say_what_it_explains(const std::vector<Finding>& findings, Finding& own) {
  for (const Finding& other : findings) {
    const bool is_same = std::any_of(own.culprits.begin(), own.culprits.end(),
                                     [&](Rank rank) { return contains(other.culprits, rank); });
    if (is_same && (other.code == "latency.slow-device" || other.code == "latency.straggler")) {
      own.evidence.push_back(fmt::format("explains {}: {}", other.code, other.title));
    }
  }
}

}  // namespace

void add_hardware_evidence(const Run& run, const std::vector<RankGpu>& gpus,
                           std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    for (const RankGpu& gpu : gpus) {
      const bool is_meant = is_hang_or_death(finding) &&
                            std::any_of(gpu.ranks.begin(), gpu.ranks.end(),
                                        [&](Rank rank) { return is_about(finding, rank); });
      if (is_meant) {
        std::vector<std::string> lines = hardware_lines(run, gpu);
        std::move(lines.begin(), lines.end(), std::back_inserter(finding.evidence));
      }
    }
  }
}

void add_telemetry(const Run& run, const TelemetryRecord& telemetry,
                   std::vector<Finding>& findings) {
  if (telemetry.gpus.empty()) {
    return;
  }
  const std::vector<RankGpu> gpus = gpus_of_ranks(run, telemetry);
  add_causes(gpus, findings);
  add_hardware_evidence(run, gpus, findings);
  std::vector<Finding> own;
  find_with_each(kTelemetryDetectors, own, gpus);
  add_recent(gpus, own);
  const bool is_bad = std::any_of(own.begin(), own.end(), [](const Finding& finding) {
    return finding.severity != Severity::kInfo;
  });
  if (is_bad) {
    std::erase_if(findings, is_summary_of_run);
  }
  for (Finding& finding : findings) {
    if (is_summary_of_run(finding)) {
      finding.evidence.push_back(gpus.empty()
                                     ? "telemetry is there, but of none of the GPUs of these ranks"
                                     : fmt::format("telemetry of {} GPU{} shows no fault",
                                                   gpus.size(), gpus.size() == 1 ? "" : "s"));
    }
  }
  for (Finding& finding : own) {
    say_what_it_explains(findings, finding);
  }
  std::move(own.begin(), own.end(), std::back_inserter(findings));
  std::stable_sort(findings.begin(), findings.end(), is_reported_before);
}

}  // namespace traintrace
