// Commands of the user that are run once there is a verdict (--on, --on-hang).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reporters/verdict/findings_report.h"

namespace traintrace {

struct VerdictHook {
  std::vector<std::string> codes;  // "collective.*" is all that begin so; none: any error
  std::string command;             // of the shell
};

// Whether a finding with that code is one of `pattern`: the code itself, or "collective.*".
bool is_meant(const std::string& pattern, std::string_view code);

// "CODE,..:COMMAND".  What is wrong with it goes to `complaint`.
std::optional<VerdictHook> parse_hook(const std::string& text, std::string& complaint);

// Runs those that are meant, one after the other, each with the findings as JSON on its stdin and
// TRAINTRACE_VERDICT, TRAINTRACE_CODE, TRAINTRACE_CULPRITS ("2,5") and TRAINTRACE_ARTIFACT (the
// path of the tar file; empty: there is none) in its environment.  What fails is told on stderr.
void run_hooks(const std::vector<VerdictHook>& hooks, const FindingsReport& report,
               const std::string& json, const std::string& artifact);

}  // namespace traintrace
