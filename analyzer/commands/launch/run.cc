// traintrace run: a program with the tracer in it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

#include "analyzer/commands/command.h"
#include "analyzer/commands/launch/child.h"
#include "analyzer/commands/launch/recorded.h"
#include "analyzer/commands/launch/setting_values.h"
#include "analyzer/isolation/answer_within.h"
#include "analyzer/text/nearest.h"
#include "analyzer/text/shell_word.h"
#include "format/schema.h"
#include "format/switch_words.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

// Installed beside bin/ as lib/, and so in the build folder; what scripts/lib/portable makes is
// started by a loader beside it, in lib/traintrace.
fs::path tracer_library() {
  constexpr const char* kName = "libtraintrace.so";
  std::error_code problem;
  const fs::path self = fs::read_symlink("/proc/self/exe", problem);
  const fs::path prefix = self.parent_path().parent_path();
  const bool by_own_loader = self.filename().string().starts_with("ld-linux-");
  return by_own_loader ? prefix / kName : prefix / "lib" / kName;
}

// A list that is an environment variable's, with one more at its end.
void append_to(const char* variable, const std::string& item) {
  const char* const list = std::getenv(variable);
  const bool any = list != nullptr && *list != '\0';
  setenv(variable, (any ? list + (":" + item) : item).c_str(), 1);
}

// After what is there already: a sanitizer's library must be the first of a process.  In a program
// that is linked to AddressSanitizer's, any preload precedes it.  That is no harm, since the tracer
// replaces no function that a sanitizer intercepts before it is ready, but such a program ends at
// once, unless it is told not to check.
void preload_tracer(const fs::path& library) {
  append_to("LD_PRELOAD", library.string());
  append_to("ASAN_OPTIONS", "verify_asan_link_order=0");
}

// NVTX calls one library only; ours goes on to the one that was to be called.
void listen_to_nvtx(const fs::path& library) {
  constexpr const char* kInjection = "NVTX_INJECTION64_PATH";
  const char* const there = std::getenv(kInjection);
  if (there != nullptr && *there != '\0' && there != library.string()) {
    setenv("TRAINTRACE_NVTX_NEXT", there, 0);
  }
  setenv(kInjection, library.c_str(), 1);
}

using Settings = std::map<std::string, std::string>;  // environment variable -> value

// Of those said as options.  An absolute folder: ranks may change theirs before they record.
void put_into_environment(const Settings& settings, const fs::path& library) {
  preload_tracer(library);
  for (const auto& [name, value] : settings) {
    const bool folder = name == "TRAINTRACE_DIR" ||
                        (name == "TRAINTRACE_COLLECT" && !format::is_switch(value.c_str()));
    setenv(name.c_str(), (folder ? fs::absolute(value).string() : value).c_str(), 1);
  }
  if (const char* const folder = std::getenv("TRAINTRACE_DIR");
      folder == nullptr || *folder == '\0') {
    setenv("TRAINTRACE_DIR", fs::absolute("traintrace").c_str(), 1);
  }
  listen_to_nvtx(library);
}

// An option that run does not have ends up as the first word of the program.
std::vector<std::string> program_of(const CLI::App& command, const Invocation& invocation) {
  std::vector<std::string> program = command.remaining();
  if (!program.empty() && invocation.dashes) {
    program.emplace_back("--");
  }
  program.insert(program.end(), invocation.behind_dashes.begin(), invocation.behind_dashes.end());
  return program;
}

// The program has ended, and so does this one, whether its folder answers or not.
void tell_recorded(const std::string& name, int64_t since_ns, const std::string& program) {
  constexpr auto kMostWait = std::chrono::seconds(6);
  const std::string folder = fs::absolute(name).string();
  const Answer answer = answer_within(kMostWait, [&](const Say& say) {
    say(recorded_text(folder, since_ns, program));
    const std::string not_collected = not_collected_text(folder, since_ns);
    say(not_collected.empty() ? "" : '\0' + not_collected);
  });
  if (answer.text.empty()) {
    note(
        fmt::format("{} does not answer, so what was recorded is not known; once it does: "
                    "traintrace analyze {}",
                    folder, shell_word(folder)));
    return;
  }
  const size_t end = answer.text.find('\0');
  note(answer.text.substr(0, end));
  if (end != answer.text.npos) {
    note(answer.text.substr(end + 1));
  }
}

// "--out" of "--dir", as the variable is TRAINTRACE_DIR; empty: no variable is called like that.
std::string option_of_variable(std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  });
  for (const format::SettingSpec& setting : format::kSettings) {
    if (setting.environment == "TRAINTRACE_" + name) {
      return "--" + std::string(setting.option);
    }
  }
  return "";
}

int run(const CLI::App& command, const Settings& settings, const Invocation& invocation) {
  const std::vector<std::string> program = program_of(command, invocation);
  if (!command.remaining().empty() && program[0].starts_with("-")) {
    std::vector<std::string> known;
    for (const CLI::Option* option : command.get_options()) {
      known.push_back("--" + option->get_lnames().at(0));
    }
    const std::string name = program[0].substr(0, program[0].find('='));
    const std::string same = option_of_variable(name);
    return fail("run has no option " + name +
                (same.empty() ? did_you_mean(name, known) : "; did you mean " + same + "?"));
  }
  for (const format::SettingSpec& setting : format::kSettings) {
    const auto said = settings.find(setting.environment);
    const std::string complaint =
        said == settings.end() ? "" : complaint_about(setting, said->second);
    if (!complaint.empty()) {
      return fail(complaint);
    }
  }
  if (program.empty()) {
    return fail("run needs a program: traintrace run [--out=DIR] -- PROGRAM ARG...");
  }
  const fs::path library = tracer_library();
  if (access(library.c_str(), R_OK) != 0) {
    return fail("the tracer is not at " + library.string());
  }
  put_into_environment(settings, library);
  const std::string folder = std::getenv("TRAINTRACE_DIR");
  const auto began = std::chrono::system_clock::now().time_since_epoch();
  const int status = run_child(program);
  constexpr int kNotStarted = 126;  // and 127
  if (status != kNotStarted && status != kNotStarted + 1) {
    const int64_t since_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(began).count();
    tell_recorded(folder, since_ns, program.front());
  }
  return status;
}

}  // namespace

void declare_run(CLI::App& command, Invocation& invocation) {
  auto settings = std::make_shared<Settings>();
  for (const format::SettingSpec& setting : format::kSettings) {
    const std::string environment = setting.environment;
    command
        .add_option_function<std::string>(
            "--" + std::string(setting.option),
            [settings, environment](const std::string& value) { (*settings)[environment] = value; },
            setting.meaning)
        ->type_name(setting.values)
        ->default_str(setting.fallback);
  }
  command.prefix_command();
  command.footer(
      "Then: [--] PROGRAM ARG...   Exits with the program's status, 128 + N after signal N.");
  command.callback([&command, settings, &invocation] {
    invocation.status = run(command, *settings, invocation);
  });
}

}  // namespace traintrace
