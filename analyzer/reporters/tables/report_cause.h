// What each reason for losing time costs, and what leaving it out would gain.
#pragma once

#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {

// One row per GPU and cause, what would gain most first; "none" is the replay with nothing left
// out. No rows where there is too much to run again.
ReportTable report_by_cause(const Profile& profile);

}  // namespace traintrace
