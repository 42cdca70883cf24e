// What is said about a run: the verdict, the losses, the findings.  The three formats print this
// and nothing else.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"
#include "analyzer/reporters/verdict/card.h"
#include "analyzer/text/screen.h"

namespace traintrace {

struct ReportedLoss {
  std::string stat;
  Rank rank;
  uint64_t count = 0;
  std::string severity;
  std::string advice;
};

// In the words of stats.def; of another version's statistic its name.  One line for all ranks that
// lost of the same.
std::vector<std::string> loss_lines(const std::vector<ReportedLoss>& losses);

struct FindingsReport {
  std::string verdict;               // one sentence
  std::vector<ReportedLoss> losses;  // by rank, stat
  std::vector<Finding> findings;

  bool has_error() const;
};

FindingsReport report_findings(const Run& run, std::vector<Finding> findings);

// Calls `write` for each finding; for one of which that fails, again with its title alone.
void write_each(const FindingsReport& report, const std::function<void(const Finding&)>& write);

std::string findings_json(const Run& run, const FindingsReport& report);  // traintrace.findings/1
// On a terminal the card; else the card and findings_lines().
std::string findings_text(const Run& run, const FindingsReport& report, const CardOptions& options,
                          const Screen& screen);
// One finding a line, with indented evidence: stable, for grep.
std::string findings_lines(const Run& run, const FindingsReport& report);
// Of the finding that leads; the others are named.
std::string card_text(const Run& run, const FindingsReport& report, const CardOptions& options,
                      const Screen& screen);
// What the verdict is about: where nothing is wrong, that comes before what is merely worth
// knowing.  Null: there are no findings.
const Finding* leading(const std::vector<Finding>& findings);

// "error collective.missing-rank proof culprits=2 victims=0,1,3: title"
std::string finding_line(const Finding& finding);
// "another run: job7 with 4 ranks, 1 error: rank 2 never ..; --run=job7"
// From the start of the run to the last thing that is known of it, be it a death that an observer
// saw.
int64_t run_duration(const Run& run);
std::string other_run_line(const OtherRun& other);
// "a run of 4 ranks on a, 42.0 s, 96412 records"
std::string run_line(const Run& run);

}  // namespace traintrace
