#include "analyzer/detectors/internal_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/isolation/stage.h"

namespace traintrace {
namespace {

constexpr std::string_view kCode = "internal.error";
bool is_summary(const Finding& finding) {
  return finding.code == "run.healthy" || finding.code == "run.in-progress";
}

// What rests on who waits for whom and who called what.
bool rests_on_model(const Finding& finding) {
  constexpr std::string_view kAreas[] = {"collective.", "p2p.",  "comm.",
                                         "device.",     "host.", "run."};
  return std::any_of(std::begin(kAreas), std::end(kAreas),
                     [&](std::string_view area) { return finding.code.starts_with(area); });
}

void doubt_all(std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (rests_on_model(finding) && finding.certainty != Certainty::kPossible) {
      finding.certainty = Certainty::kPossible;
      finding.evidence.emplace_back(
          "not certain: a step that this rests on failed (internal.error)");
    }
  }
}

Finding finding_of(const std::vector<InternalError>& errors, const char* beginning) {
  Finding finding;
  finding.code = kCode;
  finding.severity = Severity::kWarning;
  finding.title =
      fmt::format("{}traintrace failed in {} ({}){}; what {} would have said is missing", beginning,
                  errors.front().stage, errors.front().reason,
                  errors.size() == 1 ? "" : fmt::format(" and {} more steps", errors.size() - 1),
                  errors.size() == 1 ? "it" : "they");
  finding.values = {{"error_count", static_cast<int64_t>(errors.size())}};
  for (const InternalError& error : errors) {
    if (finding.evidence.size() == kManyEvidenceLines) {
      finding.evidence.push_back(fmt::format("and {} more", errors.size() - kManyEvidenceLines));
      break;
    }
    finding.evidence.push_back(fmt::format("step: {}: {}", error.stage, error.reason));
  }
  finding.advice = kReportInternalError;
  return finding;
}

auto place(const Finding& finding) {
  return std::tuple(!finding.root, finding.severity, finding.code);
}

}  // namespace

void add_internal_errors(std::vector<Finding>& findings, bool judged) {
  const std::vector<InternalError> errors = internal_errors();
  if (errors.empty()) {
    return;
  }
  std::erase_if(findings, [](const Finding& finding) {
    return is_summary(finding) || finding.code == kCode;
  });
  if (std::any_of(errors.begin(), errors.end(),
                  [](const InternalError& error) { return error.stage.starts_with("model "); })) {
    doubt_all(findings);
  }
  const bool alone = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity != Severity::kInfo;
  });
  Finding finding = finding_of(errors, !judged ? "no verdict can be given: "
                                       : alone ? "nothing else was found, but "
                                               : "");
  const auto behind = std::find_if(findings.begin(), findings.end(), [&](const Finding& other) {
    return place(finding) < place(other);
  });
  findings.insert(behind, std::move(finding));
}

}  // namespace traintrace
