// What --help and the manual say beyond options: how a command is used, and its exit status.
#pragma once

#include <string>
#include <string_view>

namespace traintrace {

// "Examples" and "Exit status" of a command; of "" those of the program.  Empty: no such command.
std::string usage_notes(std::string_view command);

std::string examples_of(std::string_view command);

}  // namespace traintrace
