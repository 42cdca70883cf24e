// Which columns of a report a person sees, and their names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace traintrace {

struct UsualColumns {
  std::vector<std::string_view> columns;  // the most telling first; empty: all
  std::vector<std::string_view> bars;     // the first of these that is there has a bar beside it
  std::string_view note = {};             // below the table: what its figures mean together
  bool one_unit = false;                  // its times are there to be compared with each other
};

// Of a report by that; what is not listed is there with --columns=all.
UsualColumns usual_columns(std::string_view by);

// A value that programs rely on, in the words of a person.
std::string_view value_for_people(std::string_view column, std::string_view value);
// "void at::native::add<4, at::Array<int> >(int)" -> "add<4, Array<int> >": names that long are
// told apart by the rest.
std::string kernel_for_people(std::string_view name);
// "exposed_communication_ns" -> "exposed comm, ms"; bytes say their unit themselves.
std::string column_heading(std::string_view column, const char* unit_of_time);

}  // namespace traintrace
