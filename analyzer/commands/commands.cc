#include <algorithm>
#include <cstdio>
#include <string>

#include "analyzer/commands/command.h"
#include "analyzer/commands/output_file.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/isolation/supervise.h"
#include "analyzer/reader/files/opened_inputs.h"
#include "analyzer/reader/silent_inputs.h"
#include "analyzer/symbols/debuginfod.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/screen.h"
#include "analyzer/timeline/communication_kernels.h"

namespace traintrace {
namespace {

constexpr int kUnusable = 2;

const Command kCommands[] = {
    {"run", "record a program", declare_run},
    {"analyze", "find what went wrong in a recorded run, and on which rank", declare_analyze},
    {"attach", "show what a running job is blocked on", declare_attach},
    {"top", "show live what each rank of a running job does", declare_top},
    {"diff", "compare two runs", declare_diff},
    {"report", "tables: where time and memory went", declare_report},
    {"dump", "print every record as text", declare_dump},
    {"telemetry", "record clocks, errors and links of this host's GPUs while a job runs",
     declare_telemetry},
    {"collect", "pack this host's traces into a shared folder", declare_collect},
    {"import", "convert other tools' files", declare_import},
    {"export", "write files for other tools", declare_export},
    {"calls", "list the intercepted functions", declare_calls},
    {"findings", "list what can be found, and explain it", declare_findings},
    {"settings", "list the settings", declare_settings},
    {"help", "explain a command", declare_help},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

void note(std::string_view message) {
  constexpr size_t kMostBytes = 8192;  // paths and hosts, too, are what others chose
  const bool is_cut = message.size() > kMostBytes;
  std::fprintf(stderr, "traintrace: %s%s\n", printable(message.substr(0, kMostBytes)).c_str(),
               is_cut ? ".." : "");
}

int fail(std::string_view message) {
  note(message);
  return kUnusable;
}

void say(const ReadError& error) {
  const std::string place = error.offset == 0 ? "" : "at " + std::to_string(error.offset) + ": ";
  note((error.file.empty() ? "" : error.file + ": ") + place + error.message);
}

int fail(const ReadError& error) {
  say(error);
  return kUnusable;
}

int print(std::string_view text) {
  return write_output("-", text);
}

int supervised(const std::function<int()>& work) {
  const auto tell = [](int status) {
    const std::vector<InternalError> errors = internal_errors();
    for (const InternalError& error : errors) {
      fail("internal error in " + error.stage + ": " + error.reason);
    }
    if (!errors.empty()) {
      fail(kReportInternalError);
    }
    return status;
  };
  return supervise(
      "the command as a whole", [&] { return tell(work()); }, [&] { return tell(kUnusable); });
}

void take_inputs(std::vector<std::string>& files) {
  take_out_silent(files);
  std::for_each(files.begin(), files.end(), remember_input);
}

// Said as what is wrong with the words of the command line.
void need_answers(const std::vector<std::string>& files) {
  const std::vector<ReadError>& silent = silent_inputs();
  if (silent.empty() || !files.empty()) {
    return;
  }
  std::for_each(silent.begin(), silent.end() - 1, [](const ReadError& error) { say(error); });
  throw CLI::ParseError(silent.back().file + ": " + silent.back().message, kUnusable);
}

void ask_again_later(std::vector<std::string>& files) {
  ask_inputs_by([&files] {
    const size_t before = files.size();
    take_out_silent(files);
    if (files.size() == before) {
      return Inputs::kAnswer;
    }
    if (!files.empty()) {
      return Inputs::kSomeSilent;
    }
    for (const ReadError& error : silent_inputs()) {
      say(error);
    }
    return Inputs::kAllSilent;
  });
}

void keep_as_inputs(CLI::App& command, std::vector<std::string>& files) {
  command.parse_complete_callback([&files] {
    take_inputs(files);
    need_answers(files);
    ask_again_later(files);
  });
}

void add_traces(CLI::App& command, std::vector<std::string>& traces) {
  command.add_option("TRACE", traces,
                     "folders of traces, traces, or files of other tools (default: ./traintrace)");
  keep_as_inputs(command, traces);
}

void add_communication_kernels(CLI::App& command) {
  command.add_option_function<std::string>(
      "--communication-kernels",
      [](const std::string& expression) {
        if (const std::string wrong = set_communication_kernels(expression); !wrong.empty()) {
          throw CLI::ValidationError("--communication-kernels", wrong);
        }
      },
      "kernels whose names match this regular expression communicate, beside those known; "
      "@FILE: one in each line");
}

void add_debuginfod(CLI::App& command) {
  command.add_flag_callback("--debuginfod", allow_debuginfod,
                            "ask the servers in DEBUGINFOD_URLS for debug information");
}

void add_color(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--color",
          [](const std::string& when) {
            choose_colour(when == "always"  ? ColourChoice::kAlways
                          : when == "never" ? ColourChoice::kNever
                                            : ColourChoice::kAuto);
          },
          "when to use colour; auto: on a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
}

void add_format(CLI::App& command, std::string& format, const std::vector<std::string>& formats) {
  format = formats.front();
  command.add_option("--format", format, "output format")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
}

}  // namespace traintrace
