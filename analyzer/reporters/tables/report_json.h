// A cell of a report as JSON has it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analyzer/reporters/tables/report_table.h"

namespace traintrace {

nlohmann::ordered_json report_cell_json(const ReportCell& cell);

}  // namespace traintrace
