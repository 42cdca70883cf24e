// What --help and the manual say beyond options: how a command is used, and its exit status.
#pragma once

#include <string>
#include <string_view>

namespace traintrace {

// "Examples" and "Exit status"; empty: no such command.
std::string usage_notes(std::string_view command);

}  // namespace traintrace
