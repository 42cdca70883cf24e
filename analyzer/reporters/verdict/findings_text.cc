// For a terminal the card alone, with all that a person asks first.  For a pipe the card, then what
// programs look for: a line for each finding, with its evidence indented under it.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/isolation/stage.h"
#include "analyzer/reporters/verdict/card.h"
#include "analyzer/reporters/verdict/findings_report.h"
#include "analyzer/reporters/verdict/people_lines.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/wall_clock.h"
#include "format/stat_meaning.h"

namespace traintrace {
namespace {

// Without it the verdict would seem to be printed twice.
constexpr const char* kSecond =
    "\nThe same with all evidence, in lines that programs can read:\n\n";

std::string text_of(const CodePlace& place) {
  return fmt::format("{}{}{}{}", place.file, place.line > 0 ? fmt::format(":{}", place.line) : "",
                     place.file.empty() || place.function.empty() ? "" : " in ", place.function);
}

// A line for each place, with all ranks that are there.
std::vector<std::string> where_lines(const Finding& finding) {
  std::vector<std::pair<std::string, Ranks>> places;
  for (const CodePlace& place : finding.where) {
    const std::string text = text_of(place);
    auto known = std::find_if(places.begin(), places.end(),
                              [&](const auto& each) { return each.first == text; });
    if (known == places.end()) {
      known = places.insert(known, {text, {}});
    }
    insert(known->second, place.rank);
  }
  std::vector<std::string> lines;
  lines.reserve(places.size());
  for (const auto& [place, ranks] : places) {
    lines.push_back(ranks_text(ranks) + ": " + place);
  }
  return lines;
}

std::string text_of(const Run& run, const Finding& finding) {
  std::string out = "\n" + printable(finding_line(finding)) + "\n";
  for (const std::string& line : where_lines(finding)) {
    out += "    where: " + printable(line) + "\n";
  }
  for (const std::string& line : fold_ranks(finding.evidence)) {
    out += "    " + printable(with_wall_clock(line, run.start)) + "\n";
  }
  if (!finding.advice.empty()) {
    out += "    advice: " + printable(finding.advice) + "\n";
  }
  return out;
}

}  // namespace

std::string findings_lines(const Run& run, const FindingsReport& report) {
  std::string out;
  for (const ReportedLoss& loss : report.losses) {
    out += fmt::format("lost: rank {}: {} {} ({}; {}){}\n", loss.rank.value, loss.count,
                       printable(loss.stat), printable(loss.severity),
                       printable(format::meaning_of_stat(loss.stat)),
                       loss.advice.empty() ? "" : ": " + printable(loss.advice));
  }
  out += "verdict: " + printable(report.verdict) + "\n";
  out += printable(run_line(run)) + "\n";
  for (const OtherRun& other : run.others) {
    out += printable(other_run_line(other)) + "\n";
  }
  write_each(report, [&](const Finding& finding) { out += text_of(run, finding); });
  return out;
}

std::string findings_text(const Run& run, const FindingsReport& report, const CardOptions& options,
                          const Screen& screen) {
  std::string card;
  run_stage("card of the verdict", [&] { card = card_text(run, report, options, screen); });
  // Where a stage failed, the lines say so, and more.
  return screen.terminal && !card.empty()
             ? card
             : card + (card.empty() ? "" : kSecond) + findings_lines(run, report);
}

}  // namespace traintrace
