// The report as a page that people look at: one file without a network.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/page/page_data.h"
#include "analyzer/reporters/findings_report.h"

namespace traintrace {

// Where there is no asset, or nothing runs programs, it holds the findings as plain HTML.
std::string page_html(const Run& run, const FindingsReport& report, const PageOptions& options);

// Valid UTF-8 whatever the job has called things, and no markup.
std::string escaped_html(std::string_view text);

}  // namespace traintrace
