// The table of what NCCL's operations were given and gave (TRAINTRACE_PAYLOAD=check).
#pragma once

#include "analyzer/numbers/checks.h"
#include "analyzer/reporters/tables/report_table.h"

namespace traintrace {

// One row per place in the code, communicator, operation, type, rank and side.
ReportTable report_by_check(const Run& run, const Checks& checks);

}  // namespace traintrace
