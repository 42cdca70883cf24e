// The commands of traintrace: one file each, listed once in commands.cc.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

// One run of traintrace.
struct Invocation {
  int status = 0;
  // Of `run`: what followed the first `--`, which no parser of options may touch.
  std::vector<std::string> behind_dashes;
  bool dashes = false;
};

struct Command {
  const char* name;
  const char* summary;  // one line
  // Declares options, and what is done with them once they are read.
  void (*declare)(CLI::App& command, Invocation& invocation);
};
std::span<const Command> commands();

// One line on stderr, whatever is in it.
void note(std::string_view message);
// The same; returns the status that goes with an error.
int fail(std::string_view message);
// The same for an input.
int fail(const ReadError& error);
void say(const ReadError& error);  // without the status

// Writes all of it; a reader that went away is no error.  2: the disk is full, or such.
int print(std::string_view text);

// Runs what a command does so that a failure of ours costs a step of it (isolation/supervise.h),
// which is told on stderr.
int supervised(const std::function<int()>& work);

// What these name is read, so no output may replace it.  Those that do not answer are left out
// (reader/silent_inputs.h).
void take_inputs(std::vector<std::string>& files);
// That all of them were left out is an error in the command line.
void need_answers(const std::vector<std::string>& files);
// Once more, should a file not answer while it is read: its server may go at any time.  What is
// silent then is taken out of `files`, which must outlive the command.
void ask_again_later(std::vector<std::string>& files);
// All of them, once all words are read.
void keep_as_inputs(CLI::App& command, std::vector<std::string>& files);
// TRACE... as most commands take it.
void add_traces(CLI::App& command, std::vector<std::string>& traces);
// --debuginfod: without it no server is asked for debug information.
void add_debuginfod(CLI::App& command);
// --communication-kernels
void add_communication_kernels(CLI::App& command);
// --color=auto|always|never
void add_color(CLI::App& command);
// --format=.. with the first one as default.
void add_format(CLI::App& command, std::string& format, const std::vector<std::string>& formats);

void declare_run(CLI::App& command, Invocation& invocation);
void declare_analyze(CLI::App& command, Invocation& invocation);
void declare_attach(CLI::App& command, Invocation& invocation);
void declare_top(CLI::App& command, Invocation& invocation);
void declare_dump(CLI::App& command, Invocation& invocation);
void declare_report(CLI::App& command, Invocation& invocation);
void declare_diff(CLI::App& command, Invocation& invocation);
void declare_telemetry(CLI::App& command, Invocation& invocation);
void declare_collect(CLI::App& command, Invocation& invocation);
void declare_import(CLI::App& command, Invocation& invocation);
void declare_export(CLI::App& command, Invocation& invocation);
void declare_calls(CLI::App& command, Invocation& invocation);
void declare_findings(CLI::App& command, Invocation& invocation);
void declare_settings(CLI::App& command, Invocation& invocation);
void declare_help(CLI::App& command, Invocation& invocation);

}  // namespace traintrace
