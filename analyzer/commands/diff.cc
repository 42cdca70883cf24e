// traintrace diff: a good run and a bad one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "analyzer/commands/analyze.h"
#include "analyzer/commands/command.h"
#include "analyzer/commands/diff_memory.h"
#include "analyzer/commands/output_file.h"
#include "analyzer/commands/sources/event_reader.h"
#include "analyzer/commands/sources/gpu_timelines.h"
#include "analyzer/commands/sources/numbers_of.h"
#include "analyzer/commands/sources/profiled_run.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/judge/load.h"
#include "analyzer/page/page.h"
#include "analyzer/reader/files/united_errors.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reporters/diff/diff_report.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/screen.h"
#include "analyzer/text/shell_word.h"
#include "analyzer/text/units.h"

namespace traintrace {
namespace {

struct DiffArguments {
  std::string a, b;
  std::string form;
  std::string output = "-";
};

Result<Run> run_of(const std::string& path) {
  const std::vector<std::string> paths = {path};
  TraceSet set = read_traces(paths, {.events = false});
  const std::vector<ReadError> errors = told_errors(set);
  const bool nothing = set.processes.empty() && !errors.empty();
  for (size_t i = nothing ? 1 : 0; i < errors.size(); ++i) {
    say(errors[i]);
  }
  if (nothing) {
    return errors.front();
  }
  Result<Run> run = assembled_run(std::move(set.processes));
  if (run) {
    return run;
  }
  ReadError error = run.error();
  error.file = path;
  return error;
}

// Lines that are longer than the terminal is wide go on a bit further to the right.
std::string folded(std::string_view text, const Screen& screen) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    out += wrapped(line.substr(0, blanks), line.substr(blanks), blanks + 4, screen);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return out;
}

// The verdict, which run is which, then the rest.
std::string text_of(const Difference& difference, const DiffArguments& arguments) {
  std::string text = diff_text(difference);
  return text.insert(text.find('\n') + 1,
                     fmt::format("A: {}\nB: {}\n", printable(arguments.a), printable(arguments.b)));
}

// Sizes as on a terminal: tables keep the width of their figures.
std::string for_terminal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    out += for_people(line) + '\n';
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return out;
}

std::string page_of(const Difference& difference, const DiffArguments& arguments) {
  const std::string traces = shell_word(arguments.a) + " " + shell_word(arguments.b);
  Sheet sheet;
  sheet.kind = "diff";
  sheet.title = for_people(diff_verdict(difference));
  sheet.text = text_of(difference, arguments);
  sheet.json = diff_json(difference);
  sheet.inputs = {{"A", arguments.a}, {"B", arguments.b}};
  sheet.next = {{"traintrace analyze " + shell_word(arguments.b), "what is wrong with B"},
                {"traintrace diff --format=json " + traces, "the same for a program"}};
  return sheet_html(sheet);
}

int print_in_form(const Difference& difference, const DiffArguments& arguments) {
  const Screen screen = arguments.output == "-" ? stdout_screen() : Screen();
  return write_output(arguments.output,
                      arguments.form == "json" ? diff_json(difference)
                      : arguments.form == "html"
                          ? page_of(difference, arguments)
                          : folded(screen.columns > 0 ? for_terminal(text_of(difference, arguments))
                                                      : text_of(difference, arguments),
                                   screen));
}

// Where both have one rank only these are compared, whatever their numbers.
void take_rank_of(const Profile& a, Profile& b) {
  if (a.timelines.size() != 1 || b.timelines.size() != 1 ||
      a.timelines[0].rank == b.timelines[0].rank) {
    return;
  }
  note(fmt::format("rank {} of A is compared with rank {} of B: each has only that one",
                   *a.timelines[0].rank, *b.timelines[0].rank));
  b.timelines[0].rank = a.timelines[0].rank;
  for (DeviceProfile& device : b.devices) {
    device.rank = {*a.timelines[0].rank};
  }
}

void say_steps_left_out(std::span<const Timeline> a, std::span<const Timeline> b) {
  for (const auto& [timelines, name] : {std::pair(a, 'A'), std::pair(b, 'B')}) {
    if (const std::string text = steps_left_out_text(timelines); !text.empty()) {
      note(fmt::format("{}: {}", name, text));
    }
  }
}

int diff_profiles_of(const std::vector<std::string>& a, const std::vector<std::string>& b,
                     const DiffArguments& arguments) {
  const Result<ProfiledRun> of_a = read_profiled_run(a);
  if (!of_a) {
    return fail(of_a.error());
  }
  Result<ProfiledRun> of_b = read_profiled_run(b);
  if (!of_b) {
    return fail(of_b.error());
  }
  take_rank_of(of_a->profile, of_b->profile);
  say_steps_left_out(of_a->profile.timelines, of_b->profile.timelines);
  const ProfileDiff time = diff_profiles(of_a->profile, of_b->profile);
  return print_in_form({nullptr, &time, {}}, arguments);
}

// None: it was not recorded of both.
std::optional<ProfileDiff> diff_of_time(const Run& a, const Run& b) {
  GpuTimelines of_a = gpu_timelines_of(a);
  GpuTimelines of_b = gpu_timelines_of(b);
  for (const GpuTimelines* const own : {&of_a, &of_b}) {
    for (const Finding& finding : own->refused) {
      note(fmt::format("{}: {}", own == &of_a ? "A" : "B", finding.title));
    }
  }
  if (of_a.timelines.empty() != of_b.timelines.empty()) {
    note(fmt::format(
        "only {} has a timeline of its GPUs, so that their time cannot be compared: record both "
        "with TRAINTRACE_GPU_TIMELINE=cupti",
        of_a.timelines.empty() ? "B" : "A"));
  }
  if (of_a.timelines.empty() || of_b.timelines.empty()) {
    return std::nullopt;
  }
  say_steps_left_out(of_a.timelines, of_b.timelines);
  return diff_profiles(build_profile(std::move(of_a.timelines)),
                       build_profile(std::move(of_b.timelines)));
}

// None: one of the runs has recorded no values, or too many.
std::optional<NumbersDiff> diff_of_values(const Run& a, const Run& b) {
  const std::optional<Numbers> of_a = numbers_if_few(a);
  const std::optional<Numbers> of_b = numbers_if_few(b);
  const auto is_empty = [](const std::optional<Numbers>& numbers) {
    return !numbers ||
           (numbers->scalars.empty() && numbers->batches.empty() && numbers->checks.all.empty());
  };
  return is_empty(of_a) || is_empty(of_b) ? std::nullopt
                                          : std::optional(diff_numbers(a, *of_a, b, *of_b));
}

int diff_traces(const DiffArguments& arguments) {
  const Result<Run> a = run_of(arguments.a);
  const Result<Run> b = run_of(arguments.b);
  if (!a && !b) {
    say(a.error());
  }
  if (!a || !b) {
    return fail(!b ? b.error() : a.error());
  }
  EventReader of_a;
  EventReader of_b;
  const auto read_events = [&](const ProcessTrace& tables) {
    const bool is_a =
        &tables >= a->processes.data() && &tables < a->processes.data() + a->processes.size();
    return is_a ? of_a.read(tables) : of_b.read(tables);
  };
  std::optional<RunDiff> calls;
  run_stage("comparison of calls", [&] { calls = diff_runs(*a, *b, read_events); });
  std::optional<ProfileDiff> time;
  run_stage("comparison of time", [&] { time = diff_of_time(*a, *b); });
  const auto memory = stage_or("comparison of memory", decltype(diff_memory(*a, *b)){},
                               [&] { return diff_memory(*a, *b); });
  std::optional<NumbersDiff> values;
  run_stage("comparison of values", [&] { values = diff_of_values(*a, *b); });
  return print_in_form(
      {calls ? &*calls : nullptr, time ? &*time : nullptr, memory, values ? &*values : nullptr},
      arguments);
}

int diff(const DiffArguments& arguments) {
  const std::vector<std::string> a = profiles_alone({arguments.a});
  const std::vector<std::string> b = profiles_alone({arguments.b});
  if (a.empty() != b.empty()) {
    return fail("one is a trace of a profiler and the other is not: they cannot be compared");
  }
  return a.empty() ? diff_traces(arguments) : diff_profiles_of(a, b, arguments);
}

}  // namespace

void declare_diff(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<DiffArguments>();
  command.add_option("TRACE_A", arguments->a, "good run: its folder, or one trace")->required();
  command.add_option("TRACE_B", arguments->b, "bad run of the same job")->required();
  add_format(command, arguments->form, {"text", "json", "html"});
  command.add_option("-o,--output", arguments->output,
                     "write the result to this file; - is stdout");
  add_debuginfod(command);
  command.parse_complete_callback([arguments] {
    std::vector<std::string> both = {arguments->a, arguments->b};
    take_inputs(both);
    need_answers(both.size() == 2 ? both : std::vector<std::string>());
  });
  command.callback([arguments, &invocation] {
    invocation.status = supervised([&] { return diff(*arguments); });
  });
}

}  // namespace traintrace
