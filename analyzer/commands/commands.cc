#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "analyzer/commands/command.h"

namespace traintrace {
namespace {

constexpr int kUnusable = 2;

const Command kCommands[] = {
    {"run", "record a program", declare_run},
    {"analyze", "find what went wrong in a recorded run, and on which rank", declare_analyze},
    {"attach", "show what a running job is blocked on", declare_attach},
    {"diff", "compare two runs", declare_diff},
    {"report", "tables: where time and memory went", declare_report},
    {"dump", "print every record as text", declare_dump},
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

int fail(std::string_view message) {
  std::fprintf(stderr, "traintrace: %.*s\n", static_cast<int>(message.size()), message.data());
  return kUnusable;
}

void say(const ReadError& error) {
  const std::string place = error.offset == 0 ? "" : "at " + std::to_string(error.offset) + ": ";
  fail((error.file.empty() ? "" : error.file + ": ") + place + error.message);
}

int fail(const ReadError& error) {
  say(error);
  return kUnusable;
}

int print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return errno == EPIPE ? 0
                            : fail(std::string("cannot write to stdout: ") + std::strerror(errno));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

void add_traces(CLI::App& command, std::vector<std::string>& traces) {
  command.add_option("TRACE", traces, "folders of traces, or traces (default: ./traintrace)");
}

void add_format(CLI::App& command, std::string& format, const std::vector<std::string>& formats) {
  format = formats.front();
  command.add_option("--format", format, "output format")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
}

}  // namespace traintrace
