#include "analyzer/reporters/verdict/findings_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/internal_error.h"
#include "analyzer/detectors/lost_time/latency.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/open_calls.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/reporters/verdict/place_role.h"
#include "analyzer/text/units.h"
#include "analyzer/text/wall_clock.h"
#include "format/stat_meaning.h"

namespace traintrace {
namespace {

std::string advice_about(const std::string& stat) {
  for (const format::StatSpec& spec : format::kStatSpecs) {
    if (stat == spec.name) {
      return spec.advice;
    }
  }
  return "";
}

// A look at its threads shows it there, or its last call has not returned, or it still polls.  Who
// left that call long ago may be anywhere, and who ended by exit left it before.
bool is_seen_there(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  if (trace.exit_kind == format::kExit) {
    return false;
  }
  const auto activity = activity_of(run, state);
  return working_thread(run, state) != nullptr || (activity && activity->open) ||
         is_polling(trace, known_until(run, state));
}

// What the newest that is known of its place is.
const char* where_words(const Run& run, const RankState& state) {
  return is_seen_there(run, state) ? (has_ended(state) ? "was last at" : "is at")
         : state.sampled           ? "was last seen at"
                                   : "made its last call at";
}

std::string verdict_of(const Run& run, const std::vector<Finding>& findings) {
  if (findings.empty()) {
    return "nothing of what was asked for was found";
  }
  const Finding& first = *leading(findings);
  std::string verdict = first.certainty == Certainty::kProof    ? ""
                        : first.certainty == Certainty::kLikely ? "likely: "
                                                                : "possibly: ";
  verdict += first.title;
  for (const CodePlace& place : first.where) {
    if (first.code.starts_with("latency.") || says_what_is_lost(first)) {
      return verdict + fmt::format("; rank {}: {}", place.rank.value, place_text(place));
    }
    // Where memory was allocated says nothing about where the rank is.
    if (contains(first.culprits, place.rank) && !first.code.starts_with("memory.")) {
      const RankState* const state = state_of(run, place.rank);
      const PlaceRole role = role_of(run, first, place);
      const auto is_said = [&](const std::string& at) {
        return first.title.find(at) != first.title.npos;
      };
      const bool is_call = !role.is_newest && !role.words.empty() && !is_said(place_text(place));
      const std::string seen = place_text(role.last_seen.value_or(place));
      if (!is_call && is_said(seen)) {
        break;
      }
      verdict += fmt::format("; rank {} {}{} {}", place.rank.value,
                             is_call ? role.words + " " + place_text(place) + " and " : "",
                             state == nullptr ? "is at" : where_words(run, *state), seen);
      break;
    }
  }
  const auto roots = std::count_if(findings.begin(), findings.end(),
                                   [](const Finding& finding) { return finding.root; });
  if (roots > 1) {
    verdict += fmt::format(" (and {} more root cause{})", roots - 1, roots == 2 ? "" : "s");
  }
  return verdict;
}

}  // namespace

const Finding* leading(const std::vector<Finding>& findings) {
  if (findings.empty()) {
    return nullptr;
  }
  if (findings.front().severity == Severity::kWarning) {
    const auto error = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
      return finding.root && finding.severity == Severity::kError;
    });
    return error == findings.end() ? &findings.front() : &*error;
  }
  const auto summary = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.code.starts_with("run.");
  });
  return findings.front().severity == Severity::kInfo && summary != findings.end()
             ? &*summary
             : &findings.front();
}

bool FindingsReport::has_error() const {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::kError; });
}

std::vector<std::string> loss_lines(const std::vector<ReportedLoss>& losses) {
  std::map<std::string_view, std::pair<Ranks, uint64_t>> by_stat;
  std::vector<const ReportedLoss*> first;
  for (const ReportedLoss& loss : losses) {
    auto& [ranks, count] = by_stat[loss.stat];
    if (ranks.empty()) {
      first.push_back(&loss);
    }
    insert(ranks, loss.rank);
    count += loss.count;
  }
  std::vector<std::string> lines;
  for (const ReportedLoss* const loss : first) {
    const auto& [ranks, count] = by_stat[loss->stat];
    lines.push_back(fmt::format(
        "{}: {}: {} ({}){}", ranks_text(ranks), format::meaning_of_stat(loss->stat),
        count_text(count),
        loss->severity == "info" ? "no effect on the verdict" : "what is said may be incomplete",
        loss->advice.empty() ? "" : ": " + loss->advice));
  }
  return lines;
}

FindingsReport report_findings(const Run& run, std::vector<Finding> findings) {
  add_internal_errors(findings, !run.processes.empty());
  FindingsReport report;
  report.verdict = verdict_of(run, findings);
  std::vector<bool> told(run.processes.size(), false);
  for (const RankState& state : run.ranks) {
    if (told[state.process]) {
      continue;
    }
    told[state.process] = true;
    for (const LossText& loss : trace_of(run, state).losses) {
      if (loss.count > 0) {
        report.losses.push_back(
            {loss.stat, state.rank, loss.count, loss.severity, advice_about(loss.stat)});
      }
    }
  }
  std::sort(report.losses.begin(), report.losses.end(),
            [](const ReportedLoss& a, const ReportedLoss& b) {
              return std::tie(a.rank, a.stat) < std::tie(b.rank, b.stat);
            });
  report.findings = std::move(findings);
  return report;
}

void write_each(const FindingsReport& report, const std::function<void(const Finding&)>& write) {
  for (const Finding& finding : report.findings) {
    if (run_stage("report of " + std::string(finding.code), [&] { write(finding); })) {
      continue;
    }
    Finding bare;
    bare.code = finding.code;
    bare.severity = finding.severity;
    bare.certainty = finding.certainty;
    bare.title = finding.title;
    bare.culprits = finding.culprits;
    bare.victims = finding.victims;
    run_stage("short report of " + std::string(finding.code), [&] { write(bare); });
  }
}

std::string finding_line(const Finding& finding) {
  std::string line =
      fmt::format("{} {} {}", name_of(finding.severity), finding.code, name_of(finding.certainty));
  if (!finding.culprits.empty()) {
    line += " culprits=" + rank_list(finding.culprits);
  }
  if (!finding.victims.empty()) {
    line += " victims=" + rank_list(finding.victims);
  }
  return line + ": " + finding.title;
}

std::string other_run_line(const OtherRun& other) {
  const std::string who =
      fmt::format("{}{} with {} rank{}", other.id.starts_with("run-") ? "" : "run ", other.id,
                  other.ranks, other.ranks == 1 ? "" : "s");
  const std::string judged =
      other.verdict.empty()
          ? ""
          : fmt::format("{}: {}",
                        other.errors == 0 ? ""
                                          : fmt::format(", {} error{}", other.errors,
                                                        other.errors == 1 ? "" : "s"),
                        other.verdict);
  if (!other.restarted_as.empty()) {
    return fmt::format("before its restart as {}: {}{}; --run={}", other.restarted_as, who, judged,
                       other.id);
  }
  return fmt::format("{}: {}{}; --run={}", judged.empty() ? "not looked at" : "another run", who,
                     judged, other.id);
}

int64_t run_duration(const Run& run) {
  TimeNs end = run.end;
  for (const ProcessTrace& trace : run.processes) {
    end = std::max(end, trace.gone);
  }
  return elapsed(run.start, end);
}

std::string run_line(const Run& run) {
  if (run.ranks.empty()) {
    return fmt::format("run {}: no rank is known", run.id);
  }
  // Other tools' files do not say where a rank ran.
  const std::string hosts = run.hosts.empty() ? ""
                                              : fmt::format(" on {} host{}", run.hosts.size(),
                                                            run.hosts.size() == 1 ? "" : "s");
  const std::string began = is_wall_clock(run.start) ? ", began " + date_text(run.start) : "";
  return fmt::format("run {}: {} of {} rank{}{}, {}, {} records{}", run.id, run.ranks.size(),
                     run.world_size, run.world_size == 1 ? "" : "s", hosts,
                     duration_text(run_duration(run)), run.records, began);
}

}  // namespace traintrace
