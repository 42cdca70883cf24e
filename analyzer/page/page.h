// The report as a page that people look at: one file without a network.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/page/page_data.h"
#include "analyzer/reporters/verdict/findings_report.h"

namespace traintrace {

// Where there is no asset, or nothing runs programs, it holds the findings as plain HTML.
std::string page_html(const Run& run, const FindingsReport& report, const PageOptions& options);

// What other commands say, as a page of tables and bars.
struct Sheet {
  const char* kind = "";                                    // report, diff
  std::string title;                                        // what it says, in a sentence
  std::string text;                                         // for readers that run no programs
  std::string json;                                         // the same, as --format=json has it
  std::vector<std::pair<std::string, std::string>> inputs;  // "A", "runs/good"
  std::vector<CardCommand> next;
  const Profile* profile = nullptr;  // where GPU time went; null: not known
};
std::string sheet_html(const Sheet& sheet);

// Valid UTF-8 whatever the job has called things, and no markup.
std::string escaped_html(std::string_view text);

}  // namespace traintrace
