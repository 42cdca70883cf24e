#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "analyzer/detectors/latency.h"

namespace traintrace {
namespace {

constexpr ProfileDetector kDetectors[] = {
    find_data_starvation,     find_cpu_contention,
    find_host_bound,          find_sync_in_loop,
    find_harmless_sync,       find_default_stream,
    find_implicit_sync,       find_exposed_communication,
    find_waiting_collectives, find_entry_skew,
    find_stragglers,          find_rotating_stall,
    find_small_collectives,   find_slow_device,
    find_event_spin,          find_full_queues,
    find_graph_gaps,          find_unattributed,
    find_incomplete_timeline, find_step_regression,
};

int64_t loss_of(const Finding& finding) {
  for (const auto& [key, value] : finding.values) {
    if (key == "idle_ns" || key == "exposed_ns" || key == "waited_ns") {
      return value;
    }
  }
  return 0;
}

Finding nothing_lost(const Profile& profile) {
  Finding finding;
  finding.code = "run.healthy";
  finding.certainty = Certainty::kLikely;
  finding.title = fmt::format("nothing in the time of {} GPU{} is lost that is worth a warning",
                              profile.devices.size(), profile.devices.size() == 1 ? "" : "s");
  return finding;
}

// What costs most is what the verdict is about.
void mark_root(std::vector<Finding>& findings) {
  auto worst = findings.end();
  for (auto finding = findings.begin(); finding != findings.end(); ++finding) {
    if (finding->severity != Severity::kInfo && loss_of(*finding) != 0 &&
        (worst == findings.end() || loss_of(*finding) > loss_of(*worst))) {
      worst = finding;
    }
  }
  if (worst != findings.end()) {
    worst->root = true;
  }
}

auto order(const Finding& finding) {
  return std::tuple(!finding.root, finding.severity, finding.code, finding.title);
}

}  // namespace

std::vector<Finding> find_in_profile(const Profile& profile) {
  std::vector<Finding> findings;
  for (const ProfileDetector detector : kDetectors) {
    std::vector<Finding> found = detector(profile);
    std::move(found.begin(), found.end(), std::back_inserter(findings));
  }
  mark_root(findings);
  if (std::none_of(findings.begin(), findings.end(),
                   [](const Finding& finding) { return finding.severity != Severity::kInfo; })) {
    findings.push_back(nothing_lost(profile));
  }
  std::sort(findings.begin(), findings.end(),
            [](const Finding& a, const Finding& b) { return order(a) < order(b); });
  return findings;
}

}  // namespace traintrace
