#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "analyzer/commands/command.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/isolation/supervise.h"

namespace traintrace {
namespace {

constexpr int kUnusable = 2;

const Command kCommands[] = {
    {"run", "record a program", declare_run},
    {"analyze", "say what went wrong in a recorded run, and who", declare_analyze},
    {"attach", "say what a running job waits for", declare_attach},
    {"diff", "compare two runs", declare_diff},
    {"report", "tables: where time went", declare_report},
    {"dump", "print every record as text", declare_dump},
    {"import", "read other tools' files", declare_import},
    {"export", "write files for other viewers", declare_export},
    {"calls", "what is intercepted", declare_calls},
    {"findings", "what can be found, with explanation", declare_findings},
    {"settings", "what can be set", declare_settings},
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
  about_to_speak();
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

void add_traces(CLI::App& command, std::vector<std::string>& traces) {
  command.add_option("TRACE", traces, "folder of traces, or single ones (default: ./traintrace)");
}

void add_format(CLI::App& command, std::string& format, const std::vector<std::string>& formats) {
  format = formats.front();
  command.add_option("--format", format, "how the result is written")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
}

}  // namespace traintrace
