// Tables of the scalars that were recorded (TRAINTRACE_PAYLOAD).
#pragma once

#include "analyzer/numbers/numbers.h"
#include "analyzer/reporters/tables/report_table.h"

namespace traintrace {

// One row per place in the code and rank.
ReportTable report_by_scalar(const Run& run, const Numbers& numbers);
// One row per value, in the order of the rows of the former and then by time.
ReportTable report_by_value(const Run& run, const Numbers& numbers);
// Of what was sent to GPUs: one row per place in the code and rank.
ReportTable report_by_batch(const Run& run, const Numbers& numbers);

}  // namespace traintrace
