#include <fmt/format.h>

#include "analyzer/reporters/findings_report.h"
#include "analyzer/text/printable.h"

namespace traintrace {
namespace {

std::string painted(const std::string& text, const char* code, bool colour) {
  return colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

const char* colour_of(Severity severity) {
  constexpr const char* kCodes[] = {"1;31", "33", "32"};
  return kCodes[static_cast<size_t>(severity)];
}

std::string text_of(const Finding& finding, bool colour) {
  std::string out = "\n";
  out += painted(printable(finding_line(finding)), colour_of(finding.severity), colour) + "\n";
  for (const CodePlace& place : finding.where) {
    out += printable(fmt::format("    where: rank {}: {}{}{}{}", place.rank.value, place.file,
                                 place.line > 0 ? fmt::format(":{}", place.line) : "",
                                 place.file.empty() || place.function.empty() ? "" : " in ",
                                 place.function)) +
           "\n";
  }
  for (const std::string& line : finding.evidence) {
    out += "    " + printable(line) + "\n";
  }
  if (!finding.advice.empty()) {
    out += "    advice: " + printable(finding.advice) + "\n";
  }
  return out;
}

}  // namespace

std::string findings_text(const Run& run, const FindingsReport& report, bool colour) {
  std::string out;
  for (const ReportedLoss& loss : report.losses) {
    out += fmt::format("lost: rank {}: {} {} ({}){}\n", loss.rank.value, loss.count,
                       printable(loss.stat), printable(loss.severity),
                       loss.advice.empty() ? "" : ": " + printable(loss.advice));
  }
  out += "verdict: " + painted(printable(report.verdict), "1", colour) + "\n";
  out += printable(run_line(run)) + "\n";
  for (const OtherRun& other : run.others) {
    out += printable(other_run_line(other)) + "\n";
  }
  write_each(report, [&](const Finding& finding) { out += text_of(finding, colour); });
  return out;
}

}  // namespace traintrace
