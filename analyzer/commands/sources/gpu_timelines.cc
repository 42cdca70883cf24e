#include "analyzer/commands/sources/gpu_timelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/commands/sources/event_reader.h"
#include "analyzer/detectors/lost_time/latency.h"
#include "analyzer/detectors/lost_time/time_account.h"
#include "analyzer/detectors/run/summary.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/timeline/recorded/recorded.h"
#include "analyzer/timeline/recorded/recorded_host.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

Finding refused(Rank rank, const std::string& why) {
  Finding finding;
  finding.code = "trace.incomplete-timeline";
  finding.severity = Severity::kWarning;
  finding.title = fmt::format("no GPU timeline for rank {}: {}", rank.value, why);
  finding.sides = {{rank}};
  finding.advice = "record a shorter window, or with TRAINTRACE_MODE=full";
  return finding;
}

bool went_wrong(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::kError; });
}

bool is_summary(const Finding& finding) {
  return finding.code == "run.healthy" || finding.code == "run.in-progress";
}

// Why there is no timeline although one was asked for; empty: none was.
std::string reason_of(const ProcessTrace& trace) {
  constexpr std::string_view kNone = "none: ";
  const auto fact = trace.facts.find("gpu-timeline");
  return fact != trace.facts.end() && fact->second.starts_with(kNone)
             ? fact->second.substr(kNone.size())
             : "";
}

// That a run ended as it should is no proof that it lost no time.
void judged_by_host_alone(Finding& healthy) {
  constexpr std::string_view kNothing = "nothing is wrong: ";
  if (healthy.title.starts_with(kNothing)) {
    healthy.title +=
        "; how busy the GPU was is not known: time was judged by the host's calls only";
  }
  healthy.certainty = std::max(healthy.certainty, Certainty::kLikely);
}

struct Unknown {
  std::string what;
  Ranks of;
  std::string advice;
  decltype(Finding::values) values = {};
};

// Where it is in nobody's way: beside the sentence that nothing is wrong, else as a finding of its
// own.  That sentence where it holds no longer for certain, else null.
Finding* say(const Unknown& unknown, std::vector<Finding>& findings) {
  const auto summary = std::find_if(findings.begin(), findings.end(), is_summary);
  if (summary != findings.end()) {
    summary->evidence.push_back(unknown.what + "; " + unknown.advice);
    return summary->code == "run.healthy" ? &*summary : nullptr;
  }
  Finding& finding = findings.emplace_back();
  finding.code = "trace.incomplete-timeline";
  finding.title = unknown.what;
  finding.sides = {unknown.of};
  finding.values = unknown.values;
  finding.advice = unknown.advice;
  return nullptr;
}

void say_without_timeline(const std::string& reason, const Ranks& without,
                          std::vector<Finding>& findings) {
  const std::string what =
      reason.empty() ? fmt::format(
                           "no GPU timeline was recorded for {}, so lost GPU time cannot be "
                           "analyzed",
                           ranks_text(without))
                     : fmt::format("a GPU timeline for {} was asked for, but there is none: {}",
                                   ranks_text(without), reason);
  const std::string advice = reason.empty() ? "rerun with TRAINTRACE_GPU_TIMELINE=cupti"
                                            : "see the settings under trace.settings";
  if (Finding* const healthy = say({what, without, advice}, findings)) {
    judged_by_host_alone(*healthy);
  }
}

void say_what_is_not_known(const Run& run, std::vector<Finding>& findings) {
  std::map<std::string, Ranks> by_reason;  // empty: it was not asked for
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    if (trace.facts.contains("traintrace-version") && !has_gpu_timeline(trace)) {
      insert(by_reason[reason_of(trace)], state.rank);
    }
  }
  for (const auto& [reason, ranks] : by_reason) {
    say_without_timeline(reason, ranks, findings);
  }
}

// `trace` null: its events cannot be had.
void add_timeline(const JobSizes& sizes, Rank rank, const ProcessTrace* trace,
                  Symbolizer& symbolizer, GpuTimelines& result) {
  const std::string why =
      trace == nullptr ? "its events cannot be read" : gpu_timeline_refused(*trace);
  if (!why.empty()) {
    result.refused.push_back(refused(rank, why));
    return;
  }
  Timeline timeline = recorded_timeline(*trace, rank, sizes, symbolizer);
  if (timeline.work.empty()) {
    result.refused.push_back(refused(rank, "CUPTI has told of no work"));
  } else {
    result.timelines.push_back(std::move(timeline));
  }
}

}  // namespace

GpuTimelines gpu_timelines_of(const Run& run) {
  GpuTimelines result;
  std::set<size_t> read;  // a process that holds several ranks has one timeline
  const JobSizes sizes = job_sizes(run);
  EventReader events({.tensor_blocks = false});
  Symbolizer symbolizer;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& tables = trace_of(run, state);
    if (!has_gpu_timeline(tables) || !read.insert(state.process).second) {
      continue;
    }
    run_stage("GPU timeline of " + tables.source, [&] {
      // What the run has of its events may be a choice of them.
      ProcessTrace without_events = {};
      without_events.source = tables.source;
      add_timeline(sizes, state.rank, events.read(without_events), symbolizer, result);
    });
  }
  return result;
}

namespace {

// Many more would take longer than all the rest of the analysis.
constexpr uint64_t kMostRecordsByHost = 40'000'000;

// Of one machine all are on one clock, whatever their hosts are called; and two that are called the
// same may have two.
std::string clock_name(const Run& run, size_t process) {
  const RunClock& clock = run.clocks[run.clock_of[process]];
  const auto same = std::count_if(run.clocks.begin(), run.clocks.end(),
                                  [&](const RunClock& each) { return each.host == clock.host; });
  return same == 1 ? clock.host : fmt::format("{} ({})", clock.host, run.clock_of[process] + 1);
}

// By their calls alone, of ranks that have no GPU timeline; empty: there is too much of it.
std::vector<Timeline> host_timelines_of(const Run& run) {
  std::vector<Timeline> timelines;
  std::set<size_t> read;
  uint64_t records = 0;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& tables = trace_of(run, state);
    records += tables.records;
    const bool ours = tables.facts.contains("traintrace-version") && !has_gpu_timeline(tables);
    if (!ours || records > kMostRecordsByHost || !host_times_refused(tables).empty()) {
      return {};
    }
  }
  const JobSizes sizes = job_sizes(run);
  EventReader events({.reports = false, .tensor_blocks = false});
  Symbolizer symbolizer;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& tables = trace_of(run, state);
    if (!read.insert(state.process).second) {
      continue;
    }
    ProcessTrace without_events = {};
    without_events.source = tables.source;
    without_events.booted = tables.booted;
    if (const ProcessTrace* const trace = events.read(without_events)) {
      timelines.push_back(recorded_timeline(*trace, state.rank, sizes, symbolizer, true));
      timelines.back().host = clock_name(run, state.process);
    }
  }
  return timelines;
}

// Beside the sentence that nothing is wrong.
void say_lateness_not_judged(const Profile& profile, std::vector<Finding>& findings) {
  const auto summary = std::find_if(findings.begin(), findings.end(), is_summary);
  const auto not_judged =
      std::find_if(profile.groups.begin(), profile.groups.end(), [](const Arrivals& arrivals) {
        return arrivals.by_host && !arrivals.clocks.why_not.empty();
      });
  if (summary != findings.end() && not_judged != profile.groups.end()) {
    summary->evidence.push_back(
        fmt::format("which rank is late for collectives over several hosts was not judged: {}",
                    not_judged->why_not));
  }
}

// What is certain without a timeline of the GPU.  What is not is said beside the summary, if there
// is one among `findings`.
void add_by_host(const Run& run, std::vector<Finding>& findings, std::vector<Finding>& found) {
  run_stage("times of the hosts", [&] {
    std::vector<Timeline> timelines = host_timelines_of(run);
    if (timelines.empty()) {
      return;
    }
    const Profile profile = build_profile(std::move(timelines));
    say_lateness_not_judged(profile, findings);
    std::vector<Finding> by_host = find_by_host(profile);
    const auto summary = std::find_if(findings.begin(), findings.end(), is_summary);
    if (summary != findings.end()) {
      say_most_lost(profile, by_host, Stands::kLast, *summary);
    }
    std::move(by_host.begin(), by_host.end(), std::back_inserter(found));
  });
}

}  // namespace

std::string asked_in_vain(const Run& run) {
  for (const RankState& state : run.ranks) {
    if (const std::string reason = reason_of(trace_of(run, state)); !reason.empty()) {
      return fmt::format("no GPU timeline for rank {}, although one was asked for: {}",
                         state.rank.value, reason);
    }
  }
  return "";
}

std::string why_no_gpu_timeline(const Run& run, const GpuTimelines& timelines) {
  if (!timelines.refused.empty()) {
    return timelines.refused.front().title;
  }
  if (std::string vain = asked_in_vain(run); !vain.empty()) {
    return vain;
  }
  const bool recorded =
      std::any_of(run.ranks.begin(), run.ranks.end(), [&](const RankState& state) {
        return trace_of(run, state).facts.contains("traintrace-version");
      });
  return recorded ? "no rank has a GPU timeline: record with TRAINTRACE_GPU_TIMELINE=cupti"
                  : "no rank has a GPU timeline: only traces that traintrace recorded can have one";
}

namespace {

// Of the timelines that lose most of them.
struct StepsLeftOut {
  Ranks ranks;
  size_t most = 0;
  size_t of = 0;  // marked in that one
};

StepsLeftOut left_out_of(std::span<const Timeline> timelines) {
  StepsLeftOut all;
  for (const Timeline& timeline : timelines) {
    const size_t steps = steps_left_out(timeline);
    if (steps != 0) {
      insert(all.ranks, Rank{timeline.rank.value_or(0)});
      all.of = steps > all.most ? timeline.step_starts.size() : all.of;
      all.most = std::max(all.most, steps);
    }
  }
  return all;
}

// "up to 5 of 60 steps at the end are left out"
std::string left_out_text(const StepsLeftOut& steps) {
  return fmt::format("{}{} of {} steps at the end {} left out",
                     steps.ranks.size() == 1 ? "" : "up to ", steps.most, steps.of,
                     steps.most == 1 ? "is" : "are");
}

}  // namespace

std::string steps_left_out_text(std::span<const Timeline> timelines) {
  const StepsLeftOut steps = left_out_of(timelines);
  return steps.most == 0 ? ""
                         : fmt::format("the GPU timeline{} of {} end{} early: {}",
                                       steps.ranks.size() == 1 ? "" : "s", ranks_text(steps.ranks),
                                       steps.ranks.size() == 1 ? "s" : "", left_out_text(steps));
}

void say_lost_tails(const Run& run, std::vector<Finding>& findings) {
  if (run.live || run.profile == nullptr) {
    return;
  }
  MissingWork all;
  Ranks ranks;
  for (const Timeline& timeline : run.profile->timelines) {
    if (timeline.missing.at_end != 0) {
      all.launches += timeline.missing.launches;
      all.at_end += timeline.missing.at_end;
      insert(ranks, Rank{*timeline.rank});
    }
  }
  if (ranks.empty()) {
    return;
  }
  const StepsLeftOut steps = left_out_of(run.profile->timelines);
  Finding* const healthy =
      say({fmt::format("the GPU timeline{} of {} end{} early: of the last {} of {} launches of "
                       "kernels no work on the GPU was recorded, so what ran then is not known{}",
                       ranks.size() == 1 ? "" : "s", ranks_text(ranks),
                       ranks.size() == 1 ? "s" : "", all.at_end, all.launches,
                       steps.most == 0 ? "" : ", and " + left_out_text(steps)),
           ranks,
           "to have it too, let the job wait for its GPU once more, 0.1 s after its last work",
           {{"missing_count", static_cast<int64_t>(all.at_end)},
            {"launch_count", static_cast<int64_t>(all.launches)}}},
          findings);
  if (healthy != nullptr) {
    healthy->certainty = std::max(healthy->certainty, Certainty::kLikely);
  }
}

void add_latency(Run& run, std::vector<Finding>& findings) {
  if (went_wrong(findings)) {
    return;
  }
  GpuTimelines own = gpu_timelines_of(run);
  const bool without = own.timelines.empty() && own.refused.empty();
  std::vector<Finding> found = std::move(own.refused);
  if (!own.timelines.empty()) {
    run_stage("profile of the GPUs", [&] {
      run.profile = std::make_shared<const Profile>(build_profile(std::move(own.timelines)));
      const Profile& profile = *run.profile;
      std::vector<Finding> in_profile = find_in_profile(profile);
      run.lost_times = lost_times(profile, in_profile);
      const auto summary = std::find_if(findings.begin(), findings.end(), is_summary);
      if (summary != findings.end()) {
        say_most_lost(profile, in_profile, Stands::kFirst, *summary);
        add_profiling(profile, *summary);
      }
      std::move(in_profile.begin(), in_profile.end(), std::back_inserter(found));
    });
  }
  if (without) {
    add_by_host(run, findings, found);
  }
  std::erase_if(found, is_summary);
  if (std::any_of(found.begin(), found.end(),
                  [](const Finding& finding) { return finding.severity != Severity::kInfo; })) {
    std::erase_if(findings, [&](const Finding& finding) {
      return is_summary(finding) && !leaves_wait_open(run, finding);
    });
  }
  say_what_is_not_known(run, findings);
  say_lost_tails(run, findings);
  const bool has_root = std::any_of(findings.begin(), findings.end(),
                                    [](const Finding& finding) { return finding.root; });
  for (Finding& finding : found) {
    finding.root = finding.root && !has_root;
    findings.push_back(std::move(finding));
  }
  std::stable_sort(findings.begin(), findings.end(), is_reported_before);
}

}  // namespace traintrace
