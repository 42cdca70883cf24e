// Ranks' timelines that contradict each other: who was late cannot be said.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/timeline/collectives/messages.h"
#include "analyzer/timeline/missing_work.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

// To a message from one rank to another nobody comes late together.
bool has_collectives(const Timeline& timeline) {
  const std::set<uint64_t> one_to_one = communicators_of_pairs(timeline);
  return std::any_of(timeline.work.begin(), timeline.work.end(), [&](const GpuWork& work) {
    return work.kind == WorkKind::kCommunication && work.end_ns > work.start_ns &&
           !is_between_two(timeline, work.correlation, one_to_one);
  });
}

// In a trace of our own.
bool is_recorded(const Timeline& timeline) {
  return !timeline.call_stacks.empty();
}

// ", 12 of them at the end, where 2 steps are left out"
std::string end_text(const Timeline& timeline) {
  const size_t steps = steps_left_out(timeline);
  return timeline.missing.at_end == 0
             ? ""
             : fmt::format(", {} of them at the end{}", timeline.missing.at_end,
                           steps == 0 ? ""
                                      : fmt::format(", where {} step{} left out", steps,
                                                    steps == 1 ? " is" : "s are"));
}

}  // namespace

std::vector<Finding> find_missing_work(const Profile& profile) {
  Finding finding;
  finding.code = "trace.incomplete-timeline";
  finding.severity = Severity::kInfo;
  MissingWork all;
  for (const Timeline& timeline : profile.timelines) {
    if (is_recorded(timeline)) {
      continue;  // CUPTI counts what it drops, and of what is missing at the end the run tells
    }
    const MissingWork& missing = timeline.missing;
    if (missing.missing == 0) {
      continue;
    }
    all.launches += missing.launches;
    all.missing += missing.missing;
    insert(finding.culprits, {timeline.rank.value_or(0)});
    if (matters(missing)) {
      finding.severity = Severity::kWarning;
    }
    if (finding.evidence.size() < kEvidenceLines) {
      finding.evidence.push_back(fmt::format(
          "rank {}: {} of {} launches of kernels have no GPU row{}", timeline.rank.value_or(0),
          missing.missing, missing.launches, end_text(timeline)));
    }
  }
  if (all.missing == 0) {
    return {};
  }
  finding.title = fmt::format(
      "the profiler recorded no GPU work for {} of {} launches of kernels on {}: what ran then is "
      "counted as idle",
      all.missing, all.launches, ranks_text(finding.culprits));
  finding.sides = {finding.culprits};
  finding.culprits.clear();
  finding.values = {{"missing_count", static_cast<int64_t>(all.missing)},
                    {"launch_count", static_cast<int64_t>(all.launches)}};
  finding.advice =
      "record a shorter window, synchronize before the profiler stops, or give it "
      "larger buffers";
  return {finding};
}

std::vector<Finding> find_unknown_ranks(const Profile& profile) {
  Finding finding;
  finding.code = "trace.incomplete-timeline";
  for (const Timeline& timeline : profile.timelines) {
    if (timeline.rank_from == RankSource::kNobody) {
      insert(finding.victims, {timeline.rank.value_or(0)});
      finding.evidence.push_back(
          fmt::format("rank {} stands for {}", timeline.rank.value_or(0),
                      timeline.source.substr(timeline.source.rfind('/') + 1)));
    }
  }
  if (finding.victims.empty()) {
    return {};
  }
  const size_t count = finding.victims.size();
  finding.title = fmt::format(
      "{} profile{} of a job of several ranks {} not say of which rank {}: {} only stand{} for {}, "
      "and {} no rank{} of the job",
      count, count == 1 ? "" : "s", count == 1 ? "does" : "do", count == 1 ? "it is" : "they are",
      ranks_text(finding.victims), count == 1 ? "s" : "", count == 1 ? "it" : "them",
      count == 1 ? "is" : "are", count == 1 ? "" : "s");
  finding.sides = {finding.victims};
  finding.victims.clear();
  finding.values = {{"unknown_rank_count", static_cast<int64_t>(count)}};
  finding.evidence.resize(std::min(finding.evidence.size(), kEvidenceLines));
  finding.advice =
      "begin the profiler after torch.distributed.init_process_group, or name the files by their "
      "rank: rank3.pt.trace.json";
  return {finding};
}

std::vector<Finding> find_incomplete_timeline(const Profile& profile) {
  const auto unusable = std::find_if(profile.groups.begin(), profile.groups.end(),
                                     [](const Arrivals& each) { return !each.usable(); });
  if (profile.timelines.size() < 2 || unusable == profile.groups.end()) {
    return {};
  }
  const Arrivals& arrivals = *unusable;
  if (!std::any_of(profile.timelines.begin(), profile.timelines.end(), has_collectives)) {
    return {};
  }
  Finding finding;
  finding.code = "trace.incomplete-timeline";
  // Where nothing names the groups, nothing is known to be wrong either.
  const bool unnamed =
      arrivals.group.empty() && !arrivals.why_not.empty() && arrivals.greatest_end_skew_ns != 0;
  finding.severity = knows_arrivals(profile) || unnamed ? Severity::kInfo : Severity::kWarning;
  finding.title =
      "which ranks come late to collectives" + group_text(profile, arrivals) + " is unknown: " +
      (arrivals.why_not.empty()
           ? fmt::format("ends of one collective differ by up to {:.1f} ms between ranks",
                         static_cast<double>(arrivals.greatest_end_skew_ns) / 1e6)
           : arrivals.why_not);
  finding.values = {{"contradicted_count", static_cast<int64_t>(arrivals.contradicted)},
                    {"end_skew_ns", arrivals.greatest_end_skew_ns}};
  if (!arrivals.clocks.why_not.empty()) {
    finding.evidence.push_back("clocks cannot be brought together: " + arrivals.clocks.why_not);
  }
  finding.advice =
      "record all ranks over the same steps, with no events left out, and with clocks "
      "that agree";
  return {finding};
}

}  // namespace traintrace
