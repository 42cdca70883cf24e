// By how much stragglers slow a job down, and which.
#pragma once

#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/timeline/what_if/slowdown.h"

namespace traintrace {

// First the job, then stages, ranks and operations, each with what it would slow the job down by
// alone.
ReportTable report_slowdown(const Slowdown& slowdown);

}  // namespace traintrace
