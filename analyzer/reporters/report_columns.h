// Which columns of a report a person sees, and their names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace traintrace {

struct UsualColumns {
  std::vector<std::string_view> columns;  // the most telling first; empty: all
  std::vector<std::string_view> bars;     // the first of these that is there has a bar beside it
};

// Of a report by that; what is not listed is there with --columns=all.
UsualColumns usual_columns(std::string_view by);

// "exposed_communication_ns" -> "exposed comm, ms"; bytes say their unit themselves.
std::string column_heading(std::string_view column, const char* unit_of_time);

}  // namespace traintrace
