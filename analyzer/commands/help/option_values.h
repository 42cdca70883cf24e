// What may be written after an option, as help, manual and completions say it.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace traintrace {

// text, json, html of "--format"; empty: anything.
std::vector<std::string> choices_of(const CLI::Option& option);
// Of one that takes other values, what these are: "TIME", "FILE", "DIR", "N"; empty of a flag.
std::string name_of_value(const CLI::Option& option);
// "-o", "--output"; of an argument nothing.
std::vector<std::string> dashed_names(const CLI::Option& option);
bool is_flag(const CLI::Option& option);

}  // namespace traintrace
