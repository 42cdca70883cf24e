#include "analyzer/commands/live/verdict_hooks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "analyzer/commands/command.h"
#include "analyzer/detectors/catalogue.h"
#include "analyzer/text/nearest.h"
#include "analyzer/text/printable.h"

namespace traintrace {

bool is_meant(const std::string& pattern, std::string_view code) {
  return pattern.ends_with('*') ? code.starts_with(pattern.substr(0, pattern.size() - 1))
                                : code == pattern;
}

namespace {

// The finding that a hook is about: the leading one if that is meant; null: none is.
const Finding* finding_for(const VerdictHook& hook, const FindingsReport& report) {
  const auto meant = [&](const Finding& finding) {
    return hook.codes.empty()
               ? finding.severity == Severity::kError
               : std::any_of(hook.codes.begin(), hook.codes.end(), [&](const std::string& pattern) {
                   return is_meant(pattern, finding.code);
                 });
  };
  const Finding* const first = leading(report.findings);
  if (first != nullptr && meant(*first)) {
    return first;
  }
  const auto found = std::find_if(report.findings.begin(), report.findings.end(), meant);
  return found == report.findings.end() ? nullptr : &*found;
}

[[noreturn]] void become_command(const std::string& command, int input) {
  dup2(input, STDIN_FILENO);
  std::signal(SIGPIPE, SIG_DFL);
  execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
  _exit(127);
}

// A file and no pipe: what does not read its stdin must not keep us.
int run_command(const std::string& command, const std::string& json) {
  std::FILE* const file = std::tmpfile();
  if (file == nullptr) {
    return -1;
  }
  std::fwrite(json.data(), 1, json.size(), file);
  std::rewind(file);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    become_command(command, fileno(file));
  }
  std::fclose(file);
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

std::optional<VerdictHook> parse_hook(const std::string& text, std::string& complaint) {
  // Codes hold no ':', and commands may.
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    complaint = "--on=" + text + ": write CODE,..:COMMAND";
    return std::nullopt;
  }
  VerdictHook hook;
  hook.command = text.substr(colon + 1);
  std::vector<std::string> known;
  for (const CatalogueRow& row : catalogue()) {
    known.emplace_back(row.code);
  }
  for (size_t begin = 0; begin <= colon;) {
    const size_t end = std::min(text.find(',', begin), colon);
    hook.codes.push_back(text.substr(begin, end - begin));
    begin = end + 1;
    const std::string& code = hook.codes.back();
    if (std::none_of(known.begin(), known.end(),
                     [&](const std::string& other) { return is_meant(code, other); })) {
      complaint = "--on: no finding has the code " + code + did_you_mean(code, known);
      return std::nullopt;
    }
  }
  return hook;
}

void run_hooks(const std::vector<VerdictHook>& hooks, const FindingsReport& report,
               const std::string& json, const std::string& artifact) {
  for (const VerdictHook& hook : hooks) {
    const Finding* const finding = finding_for(hook, report);
    if (finding == nullptr) {
      continue;
    }
    setenv("TRAINTRACE_VERDICT", printable(report.verdict).c_str(), 1);
    setenv("TRAINTRACE_CODE", std::string(finding->code).c_str(), 1);
    setenv("TRAINTRACE_CULPRITS", rank_list(finding->culprits).c_str(), 1);
    setenv("TRAINTRACE_ARTIFACT", artifact.c_str(), 1);
    if (run_command(hook.command, json) != 0) {
      fail("the command for this verdict failed: " + hook.command);
    }
  }
}

}  // namespace traintrace
