#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "analyzer/detectors/each_detector.h"
#include "analyzer/detectors/lost_time/gains.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/detectors/lost_time/time_account.h"
#include "analyzer/detectors/lost_time/waits_for_culprits.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr NamedDetector<ProfileDetector> kProfileDetectors[] = {
    TT_DETECTOR(find_data_starvation),     TT_DETECTOR(find_cpu_contention),
    TT_DETECTOR(find_host_bound),          TT_DETECTOR(find_sync_in_loop),
    TT_DETECTOR(find_harmless_sync),       TT_DETECTOR(find_default_stream),
    TT_DETECTOR(find_implicit_sync),       TT_DETECTOR(find_exposed_communication),
    TT_DETECTOR(find_waiting_collectives), TT_DETECTOR(find_entry_skew),
    TT_DETECTOR(find_stragglers),          TT_DETECTOR(find_rotating_stall),
    TT_DETECTOR(find_small_collectives),   TT_DETECTOR(find_slow_device),
    TT_DETECTOR(find_event_spin),          TT_DETECTOR(find_full_queues),
    TT_DETECTOR(find_slow_kernel_path),    TT_DETECTOR(find_graph_gaps),
    TT_DETECTOR(find_lazy_loads),          TT_DETECTOR(find_pauses),
    TT_DETECTOR(find_incomplete_timeline), TT_DETECTOR(find_missing_work),
    TT_DETECTOR(find_step_regression),     TT_DETECTOR(find_exposed_copies),
    TT_DETECTOR(find_pageable_copies),     TT_DETECTOR(find_unknown_ranks),
    TT_DETECTOR(find_slow_stretch),        TT_DETECTOR(find_straggler_stages),
};

// What calls alone can prove.
constexpr NamedDetector<ProfileDetector> kByHost[] = {
    TT_DETECTOR(find_data_starvation), TT_DETECTOR(find_sync_in_loop),
    TT_DETECTOR(find_pageable_copies), TT_DETECTOR(find_implicit_sync),
    TT_DETECTOR(find_stragglers),      TT_DETECTOR(find_late_entries),
    TT_DETECTOR(find_host_bound),      TT_DETECTOR(find_pauses),
};

int64_t loss_of(const Finding& finding) {
  constexpr std::string_view kLosses[] = {"idle_ns",   "exposed_ns", "waited_ns",
                                          "slower_ns", "late_ns",    "lost_ns"};
  for (const auto& [key, value] : finding.values) {
    if (std::find(std::begin(kLosses), std::end(kLosses), key) != std::end(kLosses)) {
      return value;
    }
  }
  return 0;
}

bool is_all_of(const Ranks& ranks, const Ranks& others) {
  return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) { return contains(others, rank); });
}

bool is_about_some_of(const Finding& finding, const Ranks& ranks) {
  return is_all_of(finding.culprits, ranks);
}

bool is_none_of(const Ranks& ranks, const Ranks& others) {
  return std::none_of(ranks.begin(), ranks.end(),
                      [&](Rank rank) { return contains(others, rank); });
}

// Whether it names ranks, and none of those that only wait.
bool names_others_than(const Finding& finding, const Ranks& waiting) {
  return !finding.culprits.empty() && is_none_of(finding.culprits, waiting);
}

// Whether a finding names the call that makes the host of a rank late.
bool says_why_late(const Finding& other) {
  return other.code == "latency.implicit-sync" || other.code == "latency.data-starvation" ||
         other.code == "latency.sync-in-loop";
}

// What another finding is the reason for, as that says who is late or why.
bool is_reason_for(const Profile& profile, const Finding& other, const Finding& finding) {
  if (finding.code == "latency.sync-in-loop") {
    return other.code == "latency.straggler" && is_about_some_of(finding, other.culprits) &&
           is_made_by_others(profile, finding);
  }
  if (finding.code == "latency.host-bound") {
    return other.code == "latency.cpu-contention" && is_about_some_of(finding, other.culprits);
  }
  if (finding.code == "latency.straggler") {
    const bool is_call =
        says_why_late(other) && other.certainty == Certainty::kProof &&
        is_about_some_of(other, finding.culprits) &&
        (other.code != "latency.sync-in-loop" || !is_made_by_others(profile, other));
    return (other.code == "latency.slow-device" || is_call) &&
           is_about_some_of(finding, other.culprits);
  }
  if (finding.code == "latency.pause") {
    return other.code == "latency.straggler" && !finding.sides.empty() &&
           is_all_of(finding.sides.front(), other.culprits);
  }
  if (finding.code == "latency.wait-not-transfer") {
    const bool is_pause = other.code == "latency.pause" && !other.sides.empty() &&
                          is_none_of(other.sides.front(), finding.victims);
    return is_pause || other.code == "latency.straggler" ||
           other.code == "latency.rotating-stall" || names_others_than(other, finding.victims);
  }
  if (finding.code == "latency.exposed-communication") {
    // Where it is not known who came late, it may all be waiting for a few ranks that lose as much.
    const bool names_few =
        !other.culprits.empty() && 2 * other.culprits.size() < profile.timelines.size();
    return other.code == "latency.straggler" ||
           (finding.certainty != Certainty::kProof && names_few);
  }
  return false;
}

// Whether a reason accounts for half of it: for what fixing would gain where both are known, as a
// straggler is charged with less than others wait for it; else for what is lost.
bool accounts_for(const Finding& other, const Finding& finding) {
  const std::optional<int64_t> gain = gain_ns(finding);
  const std::optional<int64_t> of_other = gain_ns(other);
  return loss_of(other) >= loss_of(finding) / 2 || (gain && of_other && *of_other >= *gain / 2);
}

// Waiting for who is late costs what they are late by: they are the reason.  Where only those who
// are late lose time after a call that waits, it is not the call, if others make it as well.
bool is_explained(const Profile& profile, const Finding& finding,
                  const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& other) {
    return other.severity != Severity::kInfo && is_reason_for(profile, other, finding) &&
           accounts_for(other, finding);
  });
}

int64_t value_of(const Finding& finding, std::string_view key) {
  const auto found = std::find_if(finding.values.begin(), finding.values.end(),
                                  [&](const auto& value) { return value.first == key; });
  return found == finding.values.end() ? 0 : found->second;
}

// ", but for one pause of 250.0 ms (38 %)"
std::string pauses_text(const std::vector<Finding>& findings) {
  const auto pause = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.code == "latency.pause";
  });
  if (pause == findings.end()) {
    return "";
  }
  if (const int64_t start_up = value_of(*pause, "start_up_ns");
      start_up != 0 && start_up == value_of(*pause, "idle_ns")) {
    return fmt::format(", but for {} of start-up ({} %)", ms_text(start_up),
                       value_of(*pause, "idle_percent"));
  }
  const int64_t count = value_of(*pause, "pause_count");
  const int64_t idle = value_of(*pause, "idle_ns");  // 0: nobody had a pause, some waited
  return fmt::format(", but for {} of {} ({} %)",
                     count == 1 ? "one pause" : fmt::format("{} single pauses", count),
                     ms_text(idle ? idle : value_of(*pause, "waited_ns")),
                     value_of(*pause, idle ? "idle_percent" : "waited_percent"));
}

// Of the GPU that loses most to what a finding is about.
double lost_share(const Profile& profile, const Finding& finding) {
  std::vector<int64_t> lost(profile.devices.size(), 0);
  double most = 0;
  for (const NamedLoss& named : finding.named) {
    if (named.kind == kStartUpLoss) {
      most = std::max(most, profile.devices[named.device].share_of_whole(named.ns));
    } else {
      lost[named.device] += named.ns;
    }
  }
  for (const DeviceProfile& device : profile.devices) {
    most = std::max(most, device.share(lost[device.index]));
  }
  return most;
}

Finding nothing_lost(const Profile& profile, const std::vector<Finding>& findings) {
  Finding finding;
  finding.code = "run.healthy";
  finding.certainty = Certainty::kLikely;
  finding.title = fmt::format("nothing in the time of {} GPU{} is lost that is worth a warning",
                              profile.devices.size(), profile.devices.size() == 1 ? "" : "s");
  if (!say_most_lost(profile, findings, Stands::kFirst, finding)) {
    finding.title += pauses_text(findings);
  }
  return finding;
}

// What fixing it would gain, where that is known; else what is lost.
std::pair<int64_t, int64_t> worth_of(const Finding& finding) {
  const int64_t loss = loss_of(finding);
  return {gain_ns(finding).value_or(loss), loss};
}

// Whether it says no more than that the others do not say all.
bool is_rest(const Finding& finding) {
  return finding.code == "latency.unattributed";
}

// What the verdict may be about: losses that no other finding explains.  What is only possible and
// names no rank gives way to what is likely and names one.
std::vector<size_t> leading_candidates(const Profile& profile,
                                       const std::vector<Finding>& findings) {
  std::vector<size_t> candidates;
  bool is_named = false;
  const auto is_possible = [](const Finding& finding) {
    return finding.certainty == Certainty::kPossible;
  };
  for (size_t i = 0; i < findings.size(); ++i) {
    const Finding& finding = findings[i];
    if (finding.severity != Severity::kInfo && loss_of(finding) != 0 &&
        !is_explained(profile, finding, findings)) {
      candidates.push_back(i);
      is_named = is_named || (!is_possible(finding) && !finding.culprits.empty());
    }
  }
  std::erase_if(candidates, [&](size_t i) {
    return is_named && is_possible(findings[i]) && findings[i].culprits.empty();
  });
  return candidates;
}

// What would gain most is what the verdict is about; what has no name is so only where nothing has.
void mark_root(const Profile& profile, std::vector<Finding>& findings) {
  auto worst = findings.end();
  for (const size_t i : leading_candidates(profile, findings)) {
    const auto finding = findings.begin() + static_cast<ptrdiff_t>(i);
    if (worst == findings.end() || is_rest(*worst) ||
        (!is_rest(*finding) && worth_of(*finding) > worth_of(*worst))) {
      worst = finding;
    }
  }
  if (worst == findings.end()) {
    return;
  }
  worst->root = true;
  const auto larger = std::find_if(findings.begin(), findings.end(), [&](const Finding& other) {
    return other.severity != Severity::kInfo && loss_of(other) > loss_of(*worst) &&
           gain_ns(*worst) && gain_ns(other).value_or(loss_of(other)) < gain_ns(*worst);
  });
  if (larger != findings.end()) {
    worst->evidence.insert(worst->evidence.end() - 1,
                           fmt::format("{} loses more, {}, but fixing that would gain less",
                                       larger->code, ms_text(loss_of(*larger))));
  }
}

// What is idle in the recording may have been work.
void doubt_where_work_is_missing(std::vector<Finding>& findings) {
  const bool missing = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.code == "trace.incomplete-timeline" && finding.severity != Severity::kInfo &&
           !finding.values.empty() && finding.values.front().first == "missing_count";
  });
  for (Finding& finding : findings) {
    if (missing && finding.code.starts_with("latency.")) {
      finding.certainty = std::max(finding.certainty, Certainty::kLikely);
    }
  }
}

}  // namespace

bool say_most_lost(const Profile& profile, const std::vector<Finding>& findings, Stands stands,
                   Finding& summary) {
  const auto most =
      std::max_element(findings.begin(), findings.end(), [&](const Finding& a, const Finding& b) {
        return lost_share(profile, a) < lost_share(profile, b);
      });
  const double lost = most == findings.end() ? 0 : lost_share(profile, *most);
  if (lost < kMostUnnamed) {
    return false;
  }
  constexpr std::string_view kNothing = "nothing ";
  if (stands == Stands::kLast) {
    summary.title += ", but " + most->title;
  } else {
    if (summary.title.starts_with(kNothing)) {
      summary.title.insert(kNothing.size(), "else ");
    }
    summary.title = most->title + "; " + summary.title;
  }
  summary.where = most->where;
  summary.values.emplace_back("lost_percent", std::llround(100 * lost));
  return true;
}

bool says_what_is_lost(const Finding& summary) {
  return summary.code.starts_with("run.") && value_of(summary, "lost_percent") != 0;
}

void add_profiling(const Profile& profile, Finding& summary) {
  for (const DeviceProfile& device : profile.devices) {
    if (device.share(device.profiling_idle_ns) >= kWarnShare) {
      add_profiling(device, summary);
    }
  }
}

namespace {

// Where it is taken to be over, nobody having seen its end; empty: nothing is.
std::string supposed_text(const Profile& profile, const DeviceProfile& device) {
  size_t count = 0;
  int64_t longest = 0;
  for (const GpuWork& work : profile.timelines[device.timeline].work) {
    if (work.device == device.device && work.end == EndKnown::kAtLatest) {
      ++count;
      longest = std::max(longest, work.end_ns - work.start_ns);
    }
  }
  return count == 0 ? ""
                    : fmt::format(
                          "rank {}: {} times nothing waited for the end of what was launched: it "
                          "is taken to be over after as long as the same work took where its end "
                          "was seen, or four times the longest of that; {} at most",
                          device.rank.value, count, ms_text(longest));
}

// Of idle time alone: what a call waited for was seen to end.
void doubt_what_is_supposed(const Profile& profile, Finding& finding) {
  constexpr std::string_view kOfLaunches[] = {"latency.host-bound", "latency.data-starvation",
                                              "latency.pause"};
  if (std::find(std::begin(kOfLaunches), std::end(kOfLaunches), finding.code) ==
      std::end(kOfLaunches)) {
    return;
  }
  std::set<size_t> devices;
  for (const NamedLoss& named : finding.named) {
    devices.insert(named.device);
  }
  for (const size_t device : devices) {
    if (const std::string text = supposed_text(profile, profile.devices[device]); !text.empty()) {
      finding.certainty = std::max(finding.certainty, Certainty::kLikely);
      finding.evidence.push_back(text);
    }
  }
}

}  // namespace

std::vector<Finding> find_by_host(const Profile& profile) {
  std::vector<Finding> findings;
  find_with_each(kByHost, findings, profile);
  for (Finding& finding : findings) {
    doubt_what_is_supposed(profile, finding);
    if (finding.code == "latency.straggler" && finding.severity == Severity::kInfo) {
      continue;  // says itself what is not known
    }
    finding.evidence.push_back(
        "no GPU timeline was recorded: by the host's calls alone, a lower bound. After a "
        "synchronization has returned the streams it waited for are empty, until the next launch");
  }
  mark_root(profile, findings);
  return findings;
}

std::vector<Finding> find_in_profile(const Profile& profile) {
  std::vector<Finding> findings;
  find_with_each(kProfileDetectors, findings, profile);
  run_stage("waits", [&] { name_waits_for_culprits(profile, findings); });
  constexpr NamedDetector<decltype(&find_unattributed)> kLast[] = {TT_DETECTOR(find_unattributed)};
  std::vector<Finding> rest;
  find_with_each(kLast, rest, profile, findings);
  std::move(rest.begin(), rest.end(), std::back_inserter(findings));
  doubt_where_work_is_missing(findings);
  run_stage("gains", [&] { add_gains(profile, findings); });
  mark_root(profile, findings);
  if (std::none_of(findings.begin(), findings.end(),
                   [](const Finding& finding) { return finding.severity != Severity::kInfo; })) {
    findings.push_back(nothing_lost(profile, findings));
    add_profiling(profile, findings.back());
  }
  std::sort(findings.begin(), findings.end(), is_reported_before);
  return findings;
}

}  // namespace traintrace
