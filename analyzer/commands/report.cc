// traintrace report: tables.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "analyzer/commands/analyze.h"
#include "analyzer/commands/command.h"
#include "analyzer/commands/output_file.h"
#include "analyzer/commands/sources/event_reader.h"
#include "analyzer/commands/sources/gpu_timelines.h"
#include "analyzer/commands/sources/numbers_of.h"
#include "analyzer/commands/sources/profiled_run.h"
#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/importers/operations_csv.h"
#include "analyzer/judge/load.h"
#include "analyzer/memory/device_peaks.h"
#include "analyzer/page/page.h"
#include "analyzer/reader/files/read_stage.h"
#include "analyzer/reader/files/united_errors.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reporters/tables/report_cause.h"
#include "analyzer/reporters/tables/report_check.h"
#include "analyzer/reporters/tables/report_scalar.h"
#include "analyzer/reporters/tables/report_slowdown.h"
#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/text/progress.h"
#include "analyzer/text/shell_word.h"
#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/recorded/recorded.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

struct ReportArguments {
  std::vector<std::string> traces;
  std::string by = "call";
  std::string form;
  std::string frames = "own";
  std::string output = "-";
  ReportChoice choice;
};

std::string page_of(const ReportTable& table, const ReportArguments& arguments,
                    const Profile* profile) {
  Sheet sheet;
  sheet.kind = "report";
  sheet.title = fmt::format("Report by {}: {} row{}", table.by, table.rows.size(),
                            table.rows.size() == 1 ? "" : "s");
  sheet.text = report_text(table);
  sheet.json = report_page_json(table, arguments.choice);
  std::string traces;
  for (const std::string& trace : arguments.traces) {
    traces += " " + shell_word(trace);
    sheet.inputs.emplace_back("of", trace);
  }
  sheet.next = {{"traintrace analyze" + traces, "what is wrong, and where"},
                {fmt::format("traintrace report --by={} --format=csv{}", arguments.by, traces),
                 "the same for a spreadsheet, exact"}};
  sheet.profile = profile;
  return sheet_html(sheet);
}

// `profile`: of what is known of the GPUs' time; null: nothing.
int print_in_form(const ReportTable& table, const ReportArguments& arguments,
                  const Profile* profile = nullptr) {
  if (const std::string complaint = complaint_about_columns(table, arguments.choice.columns);
      !complaint.empty()) {
    return fail(complaint);
  }
  const Screen screen = arguments.output == "-" ? stdout_screen() : Screen();
  const std::string& form = arguments.form;
  const ReportTable chosen = with_columns(table, arguments.choice.columns);
  return write_output(arguments.output, form == "json"   ? report_json(chosen)
                                        : form == "csv"  ? report_csv(chosen)
                                        : form == "html" ? page_of(chosen, arguments, profile)
                                        : screen.terminal
                                            ? report_for_people(table, arguments.choice, screen)
                                            : report_text(chosen));
}

int print_of_timelines(const ReportTable& table, std::vector<Timeline> timelines,
                       const ReportArguments& arguments) {
  if (arguments.form != "html" || timelines.empty()) {
    return print_in_form(table, arguments);
  }
  std::optional<Profile> profile;
  run_stage("profile", [&] { profile = build_profile(std::move(timelines)); });
  return print_in_form(table, arguments, profile ? &*profile : nullptr);
}

ReportTable table_of(const std::vector<Timeline>& timelines, const std::string& by) {
  return by == "rank"         ? report_by_rank(timelines)
         : by == "step"       ? report_by_step(timelines)
         : by == "stream"     ? report_by_stream(timelines)
         : by == "call"       ? report_by_call(timelines)
         : by == "operator"   ? report_by_work(timelines, WorkGroup::kOperator)
         : by == "annotation" ? report_by_work(timelines, WorkGroup::kAnnotation)
         : by == "module"     ? report_by_work(timelines, WorkGroup::kModule)
         : by == "kernel"     ? report_by_work(timelines, WorkGroup::kKernel)
         : by == "collective" ? report_by_collective(timelines)
         : by == "cause"      ? report_by_cause(build_profile(timelines))
                              : report_by_site(timelines);
}

bool is_by_rank(const std::string& by) {
  return by == "rank" || by == "step" || by == "stream";
}

// Why a table has nothing to show, or less than was marked.
void say_what_lacks(const std::vector<Timeline>& timelines, const std::string& by) {
  const bool asks_framework = by == "operator" || by == "annotation" || by == "module";
  const auto knows = [&](const Timeline& timeline) {
    return std::any_of(timeline.contexts.begin(), timeline.contexts.end(), [&](const auto& each) {
      return (by == "operator"     ? each.op
              : by == "annotation" ? each.annotation
                                   : each.module) != kNoName;
    });
  };
  if (asks_framework && std::none_of(timelines.begin(), timelines.end(), knows)) {
    note(fmt::format("no {} around launches is recorded: {}", by,
                     by == "module" ? "profile with with_modules=True and with_stack=True"
                     : by == "annotation"
                         ? "name parts of the step with torch.profiler.record_function"
                         : "operators are in profiles of PyTorch's profiler only"));
  }
  const auto communicates = [](const Timeline& timeline) {
    return std::any_of(timeline.work.begin(), timeline.work.end(),
                       [](const GpuWork& work) { return work.kind == WorkKind::kCommunication; });
  };
  if (by == "collective" && std::none_of(timelines.begin(), timelines.end(), communicates)) {
    note(
        "no communication between GPUs is recorded; --communication-kernels=REGEX names kernels "
        "that do it");
  }
  if (by == "step" && std::none_of(timelines.begin(), timelines.end(), [](const Timeline& each) {
        return !step_starts_of(each).empty();
      })) {
    note("no steps: none are marked, and the work does not repeat");
  }
  if (const std::string text = steps_left_out_text(timelines); by == "step" && !text.empty()) {
    note(text);
  }
}

int report_profiles(const std::vector<std::string>& files, const ReportArguments& arguments) {
  std::vector<Timeline> timelines;
  Progress progress(files);
  for (const std::string& file : files) {
    progress.next();
    std::vector<KinetoTrace> ranks(1);
    read_stage(file, ranks.front().errors, [&] { ranks = read_kineto_ranks(file); });
    for (KinetoTrace& trace : ranks) {
      for (const ReadError& error : trace.errors) {
        say(error);
      }
      if (trace.timeline.work.empty() && trace.errors.empty()) {
        say(without_gpu_work(file));
      }
      if (trace.events != 0) {
        timelines.push_back(std::move(trace.timeline));
      }
    }
  }
  if (timelines.empty()) {
    return 2;
  }
  run_stage("late peers", [&] { note_late_peers(find_arrivals(timelines), timelines); });
  say_what_lacks(timelines, arguments.by);
  const ReportTable table = table_of(timelines, arguments.by);
  return print_of_timelines(table, std::move(timelines), arguments);
}

bool has_row(const ReportTable& table, Rank rank) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    const auto* number = std::get_if<int64_t>(&row[0]);
    return number != nullptr && *number == rank.value;
  });
}

Ranks ranks_without_row(const Run& run, const ReportTable& table) {
  Ranks without;
  for (const RankState& state : run.ranks) {
    if (!has_row(table, state.rank)) {
      without.push_back(state.rank);
    }
  }
  return without;
}

DevicePeaks peaks_of(const ProcessTrace& tables, EventReader& events) {
  const ProcessTrace* const trace = peaks_need_events(tables) ? events.read(tables) : &tables;
  return trace == nullptr ? DevicePeaks{{}, "its events cannot be read"} : device_peaks(*trace);
}

Ranks ranks_of(const Run& run, size_t process) {
  Ranks ranks;
  for (const RankState* const state : states_of(run, process)) {
    insert(ranks, state->rank);
  }
  return ranks;
}

std::vector<RankPeak> peaks_of(const Run& run) {
  std::vector<RankPeak> peaks;
  std::map<std::string, Ranks> unknown;  // by reason
  EventReader events;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const DevicePeaks found =
        stage_or("peaks of memory of " + run.processes[i].source, DevicePeaks{},
                 [&] { return peaks_of(run.processes[i], events); });
    const Ranks ranks = ranks_of(run, i);
    for (const DevicePeak& peak : found.devices) {
      if (!ranks.empty()) {
        peaks.push_back({rank_on(run, i, peak.device).value, run.processes[i].source, peak});
      }
    }
    for (const Rank rank : found.unknown.empty() ? Ranks() : ranks) {
      insert(unknown[found.unknown], rank);
    }
  }
  for (const auto& [reason, ranks] : unknown) {
    note(fmt::format("how much memory {} had at most is not known: {}", ranks_text(ranks), reason));
  }
  return peaks;
}

// Each rank has a row, with as much as is known.
void complete_ranks(const Run& run, ReportTable& table) {
  if (table.by == "rank") {
    add_peaks(peaks_of(run), table);
  }
  for (const Rank rank : ranks_without_row(run, table)) {
    std::vector<ReportCell>& row = table.rows.emplace_back(table.columns.size());
    row[0] = int64_t{rank.value};
  }
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const auto& a, const auto& b) { return a[0] < b[0]; });
}

int report_recorded(const ReportArguments& arguments) {
  TraceSet set = read_traces(arguments.traces, {.events = false});
  for (const ReadError& error : told_errors(set)) {
    say(error);
  }
  if (set.processes.empty()) {
    return 2;
  }
  Result<Run> run = assembled_run(std::move(set.processes));
  if (!run) {
    return fail(run.error().message);
  }
  GpuTimelines own = gpu_timelines_of(*run);
  run_stage("late peers", [&] { note_late_peers(find_arrivals(own.timelines), own.timelines); });
  for (const Finding& finding : own.refused) {
    note(finding.title);
  }
  ReportTable table = table_of(own.timelines, arguments.by);
  // A GPU whose work does not repeat has no steps, but a timeline.
  const size_t without =
      is_by_rank(arguments.by) && arguments.by != "step"
          ? ranks_without_row(*run, table).size()
          : run->ranks.size() - std::min(run->ranks.size(), own.timelines.size());
  if (is_by_rank(arguments.by)) {
    complete_ranks(*run, table);
  }
  if (!own.timelines.empty()) {
    say_what_lacks(own.timelines, arguments.by);
  }
  if (const std::string vain = asked_in_vain(*run); without != 0 && !vain.empty()) {
    note(fmt::format("no GPU timeline was recorded for {} rank{}: {}", without,
                     without == 1 ? "" : "s", vain));
  } else if (without != 0) {
    note(
        fmt::format("no GPU timeline was recorded for {} rank{}: record with "
                    "TRAINTRACE_GPU_TIMELINE=cupti",
                    without, without == 1 ? "" : "s"));
  }
  return print_of_timelines(table, std::move(own.timelines), arguments);
}

// Of those that have one.
std::vector<Timeline> timelines_of(const std::vector<ProcessTrace>& processes,
                                   Symbolizer& symbolizer) {
  std::vector<Timeline> timelines;
  for (const ProcessTrace& trace : processes) {
    if (has_gpu_timeline(trace) && gpu_timeline_refused(trace).empty()) {
      const Rank rank{static_cast<int>(timelines.size())};  // of no matter for calls
      run_stage("GPU timeline of " + trace.source,
                [&] { timelines.push_back(recorded_timeline(trace, rank, {}, symbolizer)); });
    }
  }
  return timelines;
}

int report_ranges(const ReportArguments& arguments) {
  TraceSet set = read_traces(arguments.traces, {.events = true});
  for (const ReadError& error : told_errors(set)) {
    say(error);
  }
  if (set.processes.empty()) {
    return 2;
  }
  const Result<Run> run = assembled_run(std::move(set.processes));
  if (!run) {
    return fail(run.error().message);
  }
  std::vector<RankedProcess> processes;
  processes.reserve(run->processes.size());
  for (size_t i = 0; i < run->processes.size(); ++i) {
    RankedProcess& process = processes.emplace_back(RankedProcess{&run->processes[i], {}});
    for (const Rank rank : ranks_of(*run, i)) {
      process.ranks.push_back(rank.value);
    }
  }
  const ReportTable table = report_by_range(processes);
  if (table.rows.empty()) {
    note(
        "no NVTX ranges are recorded: NVTX_INJECTION64_PATH must name libtraintrace.so in the job, "
        "as `traintrace run` sets it");
  }
  return print_in_form(table, arguments);
}

bool is_of_values(const std::string& by) {
  return by == "scalar" || by == "value" || by == "batch" || by == "check";
}

int report_values(const ReportArguments& arguments) {
  TraceSet set = read_traces(arguments.traces, {.events = false});
  for (const ReadError& error : told_errors(set)) {
    say(error);
  }
  if (set.processes.empty()) {
    return 2;
  }
  const Result<Run> run = assembled_run(std::move(set.processes));
  if (!run) {
    return fail(run.error().message);
  }
  const Numbers numbers = numbers_of(*run);
  const ReportTable table = arguments.by == "scalar"  ? report_by_scalar(*run, numbers)
                            : arguments.by == "value" ? report_by_value(*run, numbers)
                            : arguments.by == "batch" ? report_by_batch(*run, numbers)
                                                      : report_by_check(*run, numbers.checks);
  if (table.rows.empty()) {
    note(arguments.by == "batch"
             ? "no batches are recorded: the job sent nothing of 512 bytes or more to its GPUs, or "
               "ran without TRAINTRACE_PAYLOAD=batches"
         : arguments.by == "check"
             ? "no checks are recorded: the job ran without TRAINTRACE_PAYLOAD=check"
             : "no values are recorded: the job fetched no numbers of 1 to 8 bytes from its GPUs, "
               "or ran with TRAINTRACE_PAYLOAD=off");
  }
  return print_in_form(table, arguments);
}

int report_operations(const ReportArguments& arguments) {
  const std::string& path = arguments.traces.front();
  const Result<OperationsFile> file = read_operations_csv(path);
  if (!file) {
    return fail(file.error());
  }
  for (const ReadError& error : file->errors) {
    say(error);
  }
  std::string why_not;
  const Slowdown slowdown = slowdown_of(file->operations, why_not);
  return why_not.empty() ? print_in_form(report_slowdown(slowdown), arguments)
                         : fail(path + ": " + why_not);
}

int report(const ReportArguments& arguments) {
  const bool is_one = arguments.traces.size() == 1;
  if (is_one && looks_like_operations_csv(arguments.traces.front())) {
    return report_operations(arguments);
  }
  if (arguments.by == "slowdown") {
    return fail(
        "--by=slowdown takes one CSV file of operations: rank, stage, step, operation, "
        "start, end");
  }
  if (const std::vector<std::string> files = profiles_alone(arguments.traces); !files.empty()) {
    if (is_of_values(arguments.by)) {
      return fail(fmt::format("--by={} is for recorded traces", arguments.by));
    }
    if (arguments.by == "range") {
      return fail("--by=range is for recorded traces; what profiles have is --by=annotation");
    }
    return report_profiles(files, arguments);
  }
  if (arguments.by == "range") {
    return report_ranges(arguments);
  }
  if (is_of_values(arguments.by)) {
    return report_values(arguments);
  }
  if (arguments.by != "call" && arguments.by != "stack") {
    return report_recorded(arguments);
  }
  const TraceSet set = read_traces(arguments.traces, {.events = true});
  for (const ReadError& error : told_errors(set)) {
    say(error);
  }
  if (set.processes.empty()) {
    return 2;
  }
  Symbolizer symbolizer;
  const std::vector<Timeline> timelines = timelines_of(set.processes, symbolizer);
  const ReportTable table = arguments.by == "call"
                                ? report_by_call(set.processes, timelines)
                                : report_by_stack(set.processes, timelines, symbolizer);
  return print_in_form(table, arguments);
}

}  // namespace

void declare_report(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<ReportArguments>();
  add_debuginfod(command);
  add_communication_kernels(command);
  add_traces(command, arguments->traces);
  command.add_option("--by", arguments->by, "what each row stands for")
      ->check(CLI::IsMember({"call", "rank", "stream", "stack", "step", "kernel", "operator",
                             "annotation", "module", "range", "scalar", "value", "batch", "check",
                             "collective", "cause", "slowdown"}))
      ->capture_default_str();
  add_format(command, arguments->form, {"text", "json", "csv", "html"});
  command
      .add_option("--columns", arguments->choice.columns,
                  "columns to show, or all; on a terminal those that matter are shown")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--frames", arguments->frames,
                  "frames of stacks on a terminal: the job's own, or all")
      ->check(CLI::IsMember({"own", "all"}))
      ->capture_default_str();
  command.add_option("-o,--output", arguments->output,
                     "write the result to this file; - is stdout");
  command.callback([arguments, &invocation] {
    arguments->choice.all_frames = arguments->frames == "all";
    invocation.status = supervised([&] { return report(*arguments); });
  });
}

}  // namespace traintrace
