#include <fmt/format.h>

#include "analyzer/reporters/findings_report.h"
#include "analyzer/text/printable.h"

namespace traintrace {
namespace {

constexpr const char* kStyle = R"(
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em;
         color: #1a1a1a; background: #fff }
  h1 { font-size: 1.3em } h2 { font-size: 1em; margin: 1.5em 0 .3em }
  section { border-left: 4px solid #ccc; padding-left: 1em }
  .error { border-color: #c62828 } .warning { border-color: #ef8f00 } .info { border-color: #2e7d32 }
  code, li { font-family: ui-monospace, monospace; font-size: .92em }
  .quiet { color: #666 }
  @media (prefers-color-scheme: dark) { body { color: #ddd; background: #161616 } .quiet { color: #999 } }
)";

// Valid UTF-8 whatever the job has called things.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string html_of(const Finding& finding) {
  std::string out = fmt::format("<section class=\"{}\">\n<h2>{}</h2>\n<p><code>{}</code> {}, {}",
                                name_of(finding.severity), escaped(finding.title), finding.code,
                                name_of(finding.severity), name_of(finding.certainty));
  if (!finding.culprits.empty()) {
    out += fmt::format(" &middot; culprits: {}", ranks_text(finding.culprits));
  }
  if (!finding.victims.empty()) {
    out += fmt::format(" &middot; victims: {}", ranks_text(finding.victims));
  }
  out += "</p>\n<ul>\n";
  for (const CodePlace& place : finding.where) {
    out += fmt::format("<li>rank {}: {}{}{}</li>\n", place.rank.value, escaped(place.file),
                       place.line > 0 ? fmt::format(":{}", place.line) : "",
                       place.function.empty() ? "" : " in " + escaped(place.function));
  }
  for (const std::string& line : finding.evidence) {
    out += fmt::format("<li>{}</li>\n", escaped(line));
  }
  out += "</ul>\n";
  if (!finding.advice.empty()) {
    out += fmt::format("<p>{}</p>\n", escaped(finding.advice));
  }
  return out + "</section>\n";
}

}  // namespace

std::string findings_html(const Run& run, const FindingsReport& report) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<title>traintrace: {}</title>\n<style>{}</style>\n</head>\n<body>\n",
      escaped(run.id), kStyle);
  for (const ReportedLoss& loss : report.losses) {
    out +=
        fmt::format("<p class=\"quiet\">lost: rank {}: {} {} ({}). {}</p>\n", loss.rank.value,
                    loss.count, escaped(loss.stat), escaped(loss.severity), escaped(loss.advice));
  }
  out += fmt::format("<h1>{}</h1>\n<p class=\"quiet\">{}</p>\n", escaped(report.verdict),
                     escaped(run_line(run)));
  for (const OtherRun& other : run.others) {
    out += fmt::format("<p class=\"quiet\">{}</p>\n", escaped(other_run_line(other)));
  }
  write_each(report, [&](const Finding& finding) { out += html_of(finding); });
  return out + "</body>\n</html>\n";
}

}  // namespace traintrace
