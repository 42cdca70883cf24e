#include "analyzer/reporters/verdict/judged_runs.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "analyzer/reporters/verdict/findings_report.h"

namespace traintrace {
namespace {

size_t errors_in(const std::vector<Finding>& findings) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [](const Finding& finding) { return finding.severity == Severity::kError; }));
}

struct Candidate {
  size_t place = 0;  // among the inputs, which are by start
  OtherRun about;
  JudgedRun judged;

  auto weight() const {
    const std::vector<Finding>& findings = judged.findings;
    const bool waits = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
      return finding.severity == Severity::kError && !finding.victims.empty();
    });
    return std::tuple(about.restarted_as.empty(), about.errors != 0, judged.run.live, waits, place);
  }
};

}  // namespace

Result<JudgedRun> judge_runs(std::vector<RunInput> inputs, const std::vector<ReadError>& unreadable,
                             const RunOptions& options, const Explain& explain) {
  const Result<size_t> chosen = chosen_run(inputs, options.run);
  if (!chosen) {
    return chosen.error();
  }
  std::optional<Candidate> leading;
  std::vector<OtherRun> others(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    others[i] = inputs[i].about;
    if (!options.run.empty() && i != *chosen) {
      continue;
    }
    Candidate own{i, inputs[i].about, judge(std::move(inputs[i]), unreadable, options, explain)};
    own.about.errors = errors_in(own.judged.findings);
    own.about.verdict = report_findings(own.judged.run, own.judged.findings).verdict;
    others[i] = own.about;
    if (!leading || leading->weight() < own.weight()) {
      leading = std::move(own);  // one run at a time is whole in memory
    }
  }
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(leading->place));
  leading->judged.run.others = std::move(others);
  return std::move(leading->judged);
}

}  // namespace traintrace
