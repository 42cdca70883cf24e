#include "analyzer/commands/analyze.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "analyzer/commands/command.h"
#include "analyzer/commands/output_file.h"
#include "analyzer/commands/sources/details.h"
#include "analyzer/commands/sources/event_reader.h"
#include "analyzer/commands/sources/generations.h"
#include "analyzer/commands/sources/gpu_timelines.h"
#include "analyzer/commands/sources/numbers_of.h"
#include "analyzer/detectors/comm/proxy_error.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/device/telemetry_findings.h"
#include "analyzer/detectors/support.h"
#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/isolation/supervise.h"
#include "analyzer/model/process/look_up_code.h"
#include "analyzer/model/runs/rank_assignment.h"
#include "analyzer/page/page.h"
#include "analyzer/reader/files/united_errors.h"
#include "analyzer/reporters/verdict/findings_report.h"
#include "analyzer/telemetry/gpu_history.h"

namespace traintrace {
namespace {

// internal.error is told whatever was asked for: it says why something may be missing.
void keep_only(const std::vector<std::string>& codes, std::vector<Finding>& findings) {
  if (!codes.empty()) {
    std::erase_if(findings, [&](const Finding& finding) {
      return std::find(codes.begin(), codes.end(), finding.code) == codes.end();
    });
  }
}

// The tables say everything, but for one thing: which calls of a process that holds several ranks
// belong to which of them.
TraceSet read_for_verdict(const std::vector<std::string>& arguments) {
  TraceSet traces = read_traces(arguments, {.events = false, .lean = true});
  return std::any_of(traces.processes.begin(), traces.processes.end(), holds_several_ranks)
             ? read_traces(arguments, {.events = true, .reports = false})
             : std::move(traces);
}

bool is_trace_name(const std::filesystem::path& path) {
  const std::filesystem::path extension = path.extension();
  return extension == ".trace" || extension == ".pointer" || extension == ".ttz";
}

// Whether a folder among the arguments holds traces of ours.
bool holds_traces(const std::vector<std::string>& arguments) {
  namespace fs = std::filesystem;
  for (const std::string& argument : arguments) {
    std::error_code none;
    if (is_trace_name(argument)) {
      return true;
    }
    if (!fs::is_directory(argument, none)) {
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(argument, none)) {
      if (is_trace_name(entry.path())) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

Analysis report_as_asked(const Run& run, std::vector<Finding> findings,
                         const AnalyzeOptions& options) {
  keep_only(options.only, findings);
  const auto write = [&] {
    const FindingsReport report = report_findings(run, findings);
    const CardOptions card{options.traces};
    const std::string text = options.format == "json" ? findings_json(run, report)
                             : options.format == "html"
                                 ? page_html(run, report, {card, options.run.read_events})
                                 : findings_text(run, report, card, options.screen);
    return Analysis{text, report.has_error()};
  };
  const size_t known = internal_errors().size();
  Analysis analysis = write();
  // A finding that could not be written as a whole: once more, with a line about that.
  return internal_errors().size() == known ? analysis : write();
}

namespace {

struct Given {
  std::vector<RunInput> inputs;
  std::vector<ReadError> unreadable;
  std::vector<Testimony> testimonies;
  TelemetryRecord telemetry;
  bool is_hearsay = false;  // there is nothing but what others say
};

// One run, whatever it was: nothing tells processes of several apart.
Result<Given> with_hearsay(Given given, std::vector<ReadError> unreadable) {
  std::vector<ProcessTrace> processes = processes_of(given.testimonies);
  const std::string& file = given.testimonies.front().file;
  if (std::all_of(given.testimonies.begin(), given.testimonies.end(),
                  [](const Testimony& testimony) { return testimony.witnesses.empty(); })) {
    return ReadError{file, 0,
                     "expected a status in which some rank differs from the others: of this one "
                     "nothing can be said without traces",
                     true, false};
  }
  RunInput& input = given.inputs.emplace_back();
  input.about.id = std::filesystem::path(file).filename().string();
  input.about.ranks = static_cast<int>(processes.size());
  input.processes = std::move(processes);
  given.unreadable = std::move(unreadable);
  return given;
}

Result<Given> take_apart(TraceSet traces) {
  Given given;
  // What is wrong with what lies beside traces makes nothing else less certain.
  std::vector<ReadError> problems;
  given.testimonies =
      read_testimonies(traces.supporting, traces.processes.empty() ? traces.errors : problems);
  given.telemetry = read_telemetry(traces.telemetry, problems);
  for (const ReadError& problem : problems) {
    say(problem);
  }
  given.is_hearsay = traces.processes.empty() && !given.testimonies.empty();
  if (given.is_hearsay) {
    return with_hearsay(std::move(given), std::move(traces.errors));
  }
  if (traces.processes.empty() && !traces.errors.empty()) {
    return traces.errors.front();
  }
  given.inputs = split_runs(std::move(traces.processes));
  given.unreadable = std::move(traces.errors);
  return given;
}

std::vector<Finding> findings_about(Run& run, const Given& given) {
  read_details(run);
  Symbolizer symbolizer;
  look_up_code(run, symbolizer);
  if (given.is_hearsay) {
    return {supported_finding(given.testimonies)};
  }
  std::vector<Finding> findings = find_all(run);
  run_stage("what other tools say", [&] {
    add_support(run, given.testimonies, findings);
    name_proxy_errors(run, given.testimonies, findings);
  });
  if (!run.live) {
    add_latency(run, findings);
    add_numeric(run, findings);
  }
  run_stage("telemetry", [&] { add_telemetry(run, given.telemetry, findings); });
  return findings;
}

Result<Given> read_given(const std::vector<std::string>& arguments) {
  TraceSet traces = read_for_verdict(arguments);
  const std::vector<ReadError> errors = traces.processes.empty() && traces.supporting.empty()
                                            ? told_errors(traces)
                                            : std::vector<ReadError>();
  if (!errors.empty()) {
    for (size_t i = 0; i + 1 < errors.size(); ++i) {
      say(errors[i]);
    }
    return errors.back();
  }
  return take_apart(std::move(traces));
}

Result<Analysis> analyze_given(Given given, const AnalyzeOptions& options) {
  std::vector<RunInput> inputs = std::move(given.inputs);
  Generations generations(inputs);
  Result<JudgedRun> judged =
      judge_runs(std::move(inputs), given.unreadable, options.run, [&](Run& run) {
        std::vector<Finding> findings = findings_about(run, given);
        generations.add(run, findings);
        keep_only(options.only, findings);
        return findings;
      });
  if (!judged) {
    return judged.error();
  }
  return report_as_asked(judged->run, std::move(judged->findings), options);
}

}  // namespace

Result<JudgedRun> judge_files(const std::vector<std::string>& arguments, RunOptions options) {
  Result<Given> given = read_given(arguments);
  if (given && given->is_hearsay) {
    return ReadError{given->testimonies.front().file, 0,
                     "a log or a status, which only `traintrace analyze` reads alone: expected "
                     "traces, or Flight Recorder dumps",
                     true};
  }
  const Result<size_t> chosen = given ? chosen_run(given->inputs, options.run) : given.error();
  if (!chosen) {
    return chosen.error();
  }
  EventReader events({.reports = false});
  options.read_events = [&](const ProcessTrace& tables) { return events.read(tables); };
  return judge(std::move(given->inputs[*chosen]), given->unreadable, options,
               [&](Run& run) { return findings_about(run, *given); });
}

Result<JudgedRun> judge_traces(TraceSet traces, const RunOptions& options) {
  Result<Given> given = take_apart(std::move(traces));
  return given ? judge_runs(std::move(given->inputs), given->unreadable, options,
                            [&](Run& run) { return findings_about(run, *given); })
               : given.error();
}

Result<Analysis> analyze_traces(TraceSet traces, const AnalyzeOptions& options) {
  Result<Given> given = take_apart(std::move(traces));
  return given ? analyze_given(std::move(*given), options) : given.error();
}

std::vector<std::string> profiles_alone(const std::vector<std::string>& arguments) {
  std::vector<std::string> profiles = find_kineto(arguments);
  if (!profiles.empty() && holds_traces(arguments)) {
    note(fmt::format(
        "{} of a profiler not looked at: give {} alone",
        profiles.size() == 1 ? profiles.front() : fmt::format("{} files", profiles.size()),
        profiles.size() == 1 ? "it" : "them"));
    profiles.clear();
  }
  return profiles;
}

namespace {

Result<Analysis> analyze_native(AnalyzeOptions options) {
  Result<Given> given = read_given(options.traces);
  if (!given) {
    return given.error();
  }
  EventReader events({.reports = false});
  options.run.read_events = [&](const ProcessTrace& tables) { return events.read(tables); };
  return analyze_given(std::move(*given), options);
}

}  // namespace

namespace {

// Nothing is said to be right or wrong, but that we failed.
int tell_failure(const AnalyzeOptions& options) {
  write_output(options.output, report_as_asked(Run(), {}, options).text);
  return 2;
}

int analyze_unguarded(const AnalyzeOptions& options) {
  const std::vector<std::string> profiles = profiles_alone(options.traces);
  const Result<Analysis> analysis =
      profiles.empty() ? analyze_native(options) : analyze_profiles(profiles, options);
  if (!analysis) {
    say(analysis.error());
    return internal_errors().empty() ? 2 : tell_failure(options);
  }
  const int written = write_output(options.output, analysis->text);
  return written != 0 ? written : analysis->error ? 1 : 0;
}

}  // namespace

int analyze_here(const AnalyzeOptions& options) {
  int status = 2;
  return run_stage("the analysis as a whole", [&] { status = analyze_unguarded(options); })
             ? status
             : tell_failure(options);
}

int analyze(const AnalyzeOptions& options) {
  return supervise(
      "the analysis as a whole", [&] { return analyze_unguarded(options); },
      [&] { return tell_failure(options); });
}

}  // namespace traintrace
